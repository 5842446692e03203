"""Guards of the pages in Airflow: who sees, who decides, and that it was they who asked."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_WEB = "airflow_kafka_lake.features.pages.web"
_PAGE = "tests/airflow/test_page.py::"

PAGE = (
    Mutant(
        name="every-pipeline-is-seen",
        law="page",
        guard="A pipeline is shown to those only who may read a Dag that has planned it.",
        module=f"{_WEB}.access",
        function="Access.sees",
        old="bool(self.readable(dags)) if dags else self.reads_ledger",
        new="True",
        red=(f"{_PAGE}test_pipeline_that_one_may_not_see_is_as_unknown_as_none",),
    ),
    Mutant(
        name="every-pipeline-is-listed",
        law="page",
        guard="The list of pipelines has those only that the user may see.",
        module=f"{_WEB}.access",
        function="Access.seen",
        old="dags & readable if dags else self.reads_ledger",
        new="True",
        red=(f"{_PAGE}test_pipeline_is_as_visible_as_the_dags_that_plan_it",),
    ),
    Mutant(
        name="who-looks-decides",
        law="page",
        guard="To decide takes the right to trigger one of the pipeline's Dags, or to edit the ledger's connection.",
        module=f"{_WEB}.actions",
        function="_decide",
        old="if not await asked.may_decide(pipeline):\n    ...",
        new="await asked.dags(pipeline)",
        red=(f"{_PAGE}test_decision_needs_the_right_to_trigger_a_dag_or_to_edit_the_connection",),
    ),
    Mutant(
        name="waves-of-all-pipelines",
        law="page",
        guard="A decision about one pipeline reaches no wave, range or plan of another.",
        module=f"{_WEB}.actions",
        function="_decide.carry_out",
        old="subject is not None and not reads.has_subject(ledger, pipeline, subject)",
        new="False",
        red=(f"{_PAGE}test_wave_of_another_pipeline_is_none_of_this_one",),
    ),
    Mutant(
        name="wave-of-any-pipeline-is-shown",
        law="page",
        guard="A wave is shown as one of its own pipeline only.",
        module=f"{_WEB}.documents",
        function="wave.make",
        old="if not reads.has_wave(ledger, name, wave_id):\n    ...",
        new="",
        red=(f"{_PAGE}test_wave_of_another_pipeline_is_none_of_this_one",),
    ),
    Mutant(
        name="a-decision-from-any-site",
        law="page",
        guard="A request that a browser says another site has made is refused, whatever it brings.",
        module=f"{_WEB}.forgery",
        function="refusal",
        old="not _same_site(headers, base_url)",
        new="False",
        red=(f"{_PAGE}test_bearer_token_beside_a_cookie_needs_the_pages_token_too",),
    ),
    Mutant(
        name="a-decision-without-a-token",
        law="page",
        guard="With Airflow's cookie a decision needs the token of the page, signed for this user.",
        module=f"{_WEB}.forgery",
        function="refusal",
        old="named == user",
        new="True",
        red=(f"{_PAGE}test_token_of_another_user_is_refused",),
    ),
    Mutant(
        name="a-form-decides",
        law="page",
        guard="A decision has a media type that no form of another site can send.",
        module=f"{_WEB}.forgery",
        function="refusal",
        old="headers.get('content-type', '').partition(';')[0].strip().lower() != 'application/json'",
        new="False",
        red=(f"{_PAGE}test_request_of_another_site_is_refused",),
    ),
    Mutant(
        name="the-ledgers-address-for-all",
        law="page",
        guard="Where the ledger is, only those are told who may read its connection.",
        module=f"{_WEB}.asking",
        function="Asked._told",
        old="not isinstance(known, _OF_THE_LEDGER) or await self.server.workers.run(lambda: self.access.reads_ledger)",
        new="True",
        red=(f"{_PAGE}test_ledger_that_does_not_answer_is_named_to_readers_of_its_connection",),
    ),
)
