"""Commands and options that features bring."""

from __future__ import annotations

import argparse

from airflow_kafka_lake.cli.arguments import PIPELINE, TOPIC, ports_of, spec_of
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.ports.feature import FeatureCommand, Option
from airflow_kafka_lake.registration import FEATURES


def option_argument(option: Option) -> Argument:
    """Return a feature's option as argparse takes it."""
    if option.metavar is None:
        return Argument(option.flag, action="store_true", help=option.help)
    return Argument(option.flag, metavar=option.metavar, help=option.help)


def command_of(feature: FeatureCommand) -> Command:
    """Return a feature's command as the command line takes it."""

    def act(arguments: argparse.Namespace, output: Output) -> Result:
        spec = spec_of(arguments.pipeline, arguments.ledger)
        given = {item.name: getattr(arguments, item.name) for item in feature.options}
        with ports_of(arguments, output, spec, need_spark=feature.needs_spark) as ports:
            return Result(document=feature.act(ports, spec, arguments.topic, given))

    def view(output: Output, document: Json) -> None:
        for line in feature.lines(document):
            output.line(line)

    arguments = (PIPELINE, TOPIC, *map(option_argument, feature.options))
    return Command(name=feature.name, help=feature.help, arguments=arguments, action=act, view=view)


COMMANDS = tuple(map(command_of, FEATURES.commands))
