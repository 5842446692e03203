"""What each command does: read the words, call one service, show its answer."""

from __future__ import annotations

import argparse
from pathlib import Path

from airflow_kafka_lake.cli import views
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.subjects import (
    bounds_of,
    deep_of,
    live_of,
    ports_of,
    scope_of,
    spec_of,
    spec_of_subject,
)
from airflow_kafka_lake.core.documents import advance_document, mirror_document, plan_document, waiting_document
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.hooks.assembly import open_ledger
from airflow_kafka_lake.registration import FEATURES
from airflow_kafka_lake.report_file import report_file, write_report
from airflow_kafka_lake.services import (
    checking,
    deciding,
    mirroring,
    planning,
    rebuilding,
    redecoding,
    reporting,
    running,
    settlement,
    staging,
)

REFUSED = 1
BUSY = 3


def plan(arguments: argparse.Namespace, output: Output) -> int:
    """`plan PIPELINE`."""
    spec, bounds = (
        spec_of(arguments.pipeline, arguments.ledger),
        bounds_of(arguments, acknowledge_order=arguments.acknowledge_order),
    )
    planning.check_bounds(bounds)
    with ports_of(arguments, output, spec) as ports:
        where = ports.runner.where()  # first: a Spark connection that is not there refuses the plan, not its display
        made = planning.plan(
            ports,
            spec,
            bounds,
            plan_id=deciding.new_id(),
            dry_run=arguments.dry_run,
            patience=spec.patience,
        )
    document = plan_document(made.plan, recorded=made.recorded)
    if output.as_json:
        output.document(document)
    else:
        views.plan(output, document, dry_run=arguments.dry_run, where=where)
    return REFUSED if made.plan.blocked or made.plan.hanging else 0


def run(arguments: argparse.Namespace, output: Output) -> int:
    """`run PIPELINE`."""
    spec, bounds = (
        spec_of(arguments.pipeline, arguments.ledger),
        bounds_of(arguments, acknowledge_order=arguments.acknowledge_order),
    )
    planning.check_bounds(bounds)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        done = running.run(ports, spec, bounds, everything=arguments.all)
    document = {
        "pipeline": spec.name,
        "plan": done.plan.id if done.plan and done.plan.waves else None,
        "period": done.plan.period.to_json() if done.plan and done.plan.period else None,
        "waves": [{"wave": item.id, "state": item.state.value, "rows": item.rows} for item in done.waves],
        "left": [item.to_json() for item in done.left],
        "rows": sum(item.rows or 0 for item in done.waves),
        "advanced": advance_document(spec.name, done.moves)["streams"],
        "mirror": mirror_document(done.mirrored),
        "waiting_for_stable": waiting_document(done.plan) if done.plan else [],
        "held": list(done.held),
        "problems": [problem.to_json() for problem in done.problems],
    }
    output.result(document, views.run)
    return done.exit_code


def status(arguments: argparse.Namespace, output: Output) -> int:
    """`status PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        reporting.known_spec(ports.ledger, spec.name)
        document = reporting.status(ports, spec, topic=arguments.topic, partitions=arguments.partition)
    output.result(document, views.status)
    return 0


def wave(arguments: argparse.Namespace, output: Output) -> int:
    """`wave WAVE`."""
    with open_ledger(arguments.ledger) as ledger:
        document = reporting.wave(ledger, arguments.wave)
    output.result(document, views.wave)
    return 0


def ingest(arguments: argparse.Namespace, output: Output) -> int:
    """`ingest WAVE`."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.wave)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        record = staging.ingest(ports, arguments.wave)
        settlement.tidy(ports, record)
        document = reporting.wave(ports.ledger, record.id)
    output.result(document, views.wave)
    return 0 if record.state is WaveState.COMMITTED else REFUSED


def settle(arguments: argparse.Namespace, output: Output) -> int:
    """`settle PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        done = settlement.settle(ports, spec.name)
    document = {
        "pipeline": spec.name,
        "adopted": list(done.adopted),
        "returned": list(done.returned),
        "busy": list(done.busy),
        "dropped": list(done.swept.dropped),
        "strange": list(done.swept.strange),
    }
    if output.as_json:
        output.document(document)
    else:
        output.line(f"{len(done.adopted)} waves found in the lake and settled: {', '.join(done.adopted) or 'none'}")
        output.line(f"{len(done.returned)} waves to be staged again: {', '.join(done.returned) or 'none'}")
        output.line(f"{len(done.busy)} waves in others' hands: {', '.join(done.busy) or 'none'}")
        output.line(f"{len(done.swept.dropped)} abandoned staging branches dropped")
    return BUSY if done.busy else 0


def advance(arguments: argparse.Namespace, output: Output) -> int:
    """`advance PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        document = advance_document(spec.name, settlement.advance(ports, spec.name))
        document["mirror"] = mirror_document(mirroring.mirror(ports, spec))
    output.result(document, views.advance)
    return 0


def cancel(arguments: argparse.Namespace, output: Output) -> int:
    """`cancel WAVE|RANGE`."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.subject)
    with ports_of(arguments, output, spec) as ports:
        ranges = deciding.cancel(ports, arguments.subject, arguments.reason, drop_staged=arguments.drop_staged)
    if output.as_json:
        output.document({"cancelled": list(ranges)})
    else:
        output.line(f"cancelled {len(ranges)} ranges; take the hold off with: kafka-lake release {arguments.subject}")
    return 0


def release(arguments: argparse.Namespace, output: Output) -> int:
    """`release WAVE|RANGE`."""
    with open_ledger(arguments.ledger) as ledger:
        spec = spec_of_subject(ledger, arguments.subject)
    with ports_of(arguments, output, spec) as ports:
        wave_id, ranges = deciding.release(ports, arguments.subject, arguments.reason)
    if output.as_json:
        output.document({"wave": wave_id, "released": list(ranges)})
    else:
        output.line(f"released {len(ranges)} ranges into wave {wave_id}; run it with: kafka-lake run {spec.name}")
    return 0


def decode(arguments: argparse.Namespace, output: Output) -> int:
    """`decode PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, need_spark=True) as ports:
        done = redecoding.redecode(ports, spec, topic=arguments.topic, only_failed=arguments.failed)
    tables = [{"table": table, **item.to_json()} for table, item in done.items()]
    output.result({"pipeline": spec.name, "tables": tables}, views.decode)
    return 0


def audit(arguments: argparse.Namespace, output: Output) -> int:
    """`audit PIPELINE`."""
    report = report_file(arguments.report) if arguments.report else None
    page = FEATURES.page("audit") if report else None
    deep, live = deep_of(arguments), live_of(arguments)
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, need_spark=deep is not None) as ports:
        reporting.known_spec(ports.ledger, spec.name)
        document = checking.audit(
            ports, spec, scope=scope_of(arguments), ask_kafka=report is not None, deep=deep, live=live
        )
    if report and page:
        write_report(report, page(document))
        output.note(f"report: {report}")
    output.result(document, views.audit)
    return 0 if document["ok"] else REFUSED


def rebuild(arguments: argparse.Namespace, output: Output) -> int:
    """`rebuild PIPELINE`."""
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec) as ports:
        done = rebuilding.rebuild(
            ports, spec, accept_rollback=arguments.accept_rollback, drop_staged=arguments.drop_staged
        )
    document = {
        "pipeline": spec.name,
        "rebuild": done.id,
        "waves": done.waves,
        "ranges": done.ranges,
        "skips": done.skips,
        "reopened": [item.to_json() for item in done.reopened],
        "deleted": [item.to_json() for item in done.deleted],
        "advanced": advance_document(spec.name, done.moves)["streams"],
    }
    output.result(document, views.rebuild)
    return 0


def db(arguments: argparse.Namespace, output: Output) -> int:
    """`db upgrade` and `db check`."""
    from airflow_kafka_lake.hooks.ledger import LedgerHook

    schema = LedgerHook(arguments.ledger).schema()
    text = schema.upgrade() if arguments.act == "upgrade" else schema.check()
    if output.as_json:
        output.document({"ledger": arguments.ledger, "schema": text})
    else:
        output.line(text)
    return 0


def jars(_: argparse.Namespace, output: Output) -> int:
    """`jars fetch`."""
    from airflow_kafka_lake.adapters.jars import JOBS, fetch
    from airflow_kafka_lake.hooks.spark import prepare_start

    found = [path for jars in JOBS for path in fetch(jars, progress=output.say)]
    prepare_start(found, output.say)
    if output.as_json:
        output.document({"jars": [path.name for path in found], "folder": str(found[0].parent)})
    else:
        output.line(f"{len(found)} jars are there and verified: {found[0].parent}")
    return 0


def demo(arguments: argparse.Namespace, output: Output) -> int:
    """`demo`."""
    from airflow_kafka_lake.local.demo import demonstrate

    report = Path(arguments.report) if arguments.report else None
    return demonstrate(output, keep_running=not arguments.exit_, report=report)
