"""A command as a task of Airflow, for people without a terminal."""

from __future__ import annotations

import io
import os
import shlex
from contextlib import chdir, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.errors import TransientError, UsageError, expected
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.remedies import PROGRAM
from airflow_kafka_lake.operators.boundary import SparkTask, actor_of, airflow_errors, refusal
from airflow_kafka_lake.wiring.assemble import pipelines_folder

if TYPE_CHECKING:
    from airflow.sdk import Context


class CommandOperator(SparkTask):
    """Runs one command of `kafka-lake`, such as a message names it; its output is the task's log.

    A refusal, a failed check and something held fail the task at once; an error that may pass is retried. `worker`,
    `demo` and `--watch` are refused. Files are those of `[kafka_lake] pipelines_folder`, such as `check orders.toml`.
    The history names the person that triggered the run, and the task.

    :param command: the command with its arguments, as in a shell, with `kafka-lake` before it or not (templated)
    """

    template_fields = ("command",)
    ui_color = "#f2dfd0"

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command

    def execute(self, context: Context) -> None:
        """Run it."""
        from airflow_kafka_lake.cli.command import ACTOR, REPEAT
        from airflow_kafka_lake.cli.entry_point import EXIT_CODES, build_parser
        from airflow_kafka_lake.cli.output import Output

        folder = pipelines_folder()
        with airflow_errors(), self.working(), chdir(folder) if folder and folder.is_dir() else nullcontext():
            words = _words(self.command)
            try:
                arguments = build_parser().parse_args(words)
            except SystemExit:  # `--help` has printed it
                return
            if arguments.command in {None, "worker", "demo"} or getattr(arguments, "watch", False):
                raise UsageError(f"command: {self.command!r} is none that ends by itself, such as: status orders")
            arguments.typed = (PROGRAM, *words)
            person = getattr(context.get("dag_run"), "triggering_user_name", None)
            # The environment is that of the task's own process.
            os.environ[ACTOR] = ", ".join((*([history.user(person)] if person else ()), actor_of(context)))
            said = io.StringIO()
            try:
                with redirect_stdout(said):
                    code = arguments.run(arguments, Output(as_json=arguments.json, log=self.log.info))
            except Exception as error:  # noqa: BLE001  # the text of any other exception may hold a secret
                raise expected(error, f"running {arguments.command}") from None
            finally:
                lines = said.getvalue().rstrip().splitlines()
                for line in lines:
                    self.log.info("%s", line)
            if code:
                told = EXIT_CODES[str(code)] if arguments.json or not lines else lines[-1]
                raise TransientError(told) if code == REPEAT else refusal(told)


def _words(command: Any) -> list[str]:
    """Return the words of a command: those behind the program's name, where it is there."""
    try:
        words = shlex.split(command if isinstance(command, str) else "")
    except ValueError as error:
        raise UsageError(f"command: {command!r} has {str(error).lower()}") from None
    return words[words.index(PROGRAM) + 1 :] if PROGRAM in words else words
