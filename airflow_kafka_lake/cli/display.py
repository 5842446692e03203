"""What a terminal shows while a command works: a spinner with the last sentence, and how far a wave is as a bar."""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from airflow_kafka_lake.core.live import Live, Moment

_BAR_WIDTH = 24


class Display:
    """A few lines at the foot of a terminal, gone when the command ends; what has landed stays above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots", style="green")
        self._sentence = Text()
        self._live: Live | None = None
        self._is_open = False
        self._screen = Screen(console=console, transient=True, refresh_per_second=8, get_renderable=self.rendered)

    def __enter__(self) -> Self:
        self._is_open = True
        self._resume()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self.pause()

    def pause(self) -> None:
        """Leave the terminal to others, until there is something to show again."""
        self._screen.stop()

    def _resume(self) -> None:
        if self._is_open:
            self._screen.start()

    def message(self, sentence: Text) -> None:
        """Show a sentence until the next one comes."""
        self._sentence = sentence
        self._resume()

    def show(self, live: Live) -> None:
        """Show how far something is."""
        self._resume()
        if live.moment is Moment.LANDED:
            self._live = None
            self._console.print(Text(live.sentence()))
        else:
            self._live = live

    def rendered(self) -> RenderableType:
        """Return the lines as they are now."""
        self._spinner.update(text=self._sentence if self._live is None else Text(self._live.name))
        if self._live is None:
            return self._spinner
        beneath = Text(_beneath(self._live), no_wrap=False, overflow="fold")
        return Group(_heading(self._spinner, self._live), Padding(beneath, (0, 0, 0, 2)))


def _heading(spinner: Spinner, live: Live) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_column(width=_BAR_WIDTH)
    row.add_column(justify="right", no_wrap=True)
    share = live.progress.share
    bar = ProgressBar(total=1.0, completed=share or 0.0, width=_BAR_WIDTH, pulse=share is None)
    row.add_row(spinner, bar, "" if share is None else f"{share:.0%}")
    return row


def _beneath(live: Live) -> str:
    """Return how far it is: of a step that begins, what it has to do, and of one that has ended, what it was."""
    return live.going() if live.moment is Moment.GOING else live.sentence().removeprefix(f"{live.name}: ")
