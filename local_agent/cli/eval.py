"""`agent eval`: how many labelled prompts come out right, with this or that part switched off."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from local_agent.cli.options import (
    base_url_option,
    config_option,
    flags_of,
    json_option,
    model_option,
    print_line,
    trusted_settings,
)
from local_agent.errors import UsageError
from local_agent.ui.sanitize import safe_write, visible

if TYPE_CHECKING:
    from local_agent.config import ModelSettings, Settings
    from local_agent.evaluation.cases import Case
    from local_agent.evaluation.results import Run

ALL = "baseline,full,no-router,no-repair,no-retry"


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line."""

    files: tuple[str, ...]
    configurations: str
    category: str | None
    case: str | None
    half: str | None
    sample: int | None
    bfcl: str | None
    bfcl_count: int
    record: str | None
    replay: str | None
    label: str
    reply_tokens: int
    max_steps: int
    estimate: bool
    failures: bool
    save: str | None
    results: tuple[str, ...]
    report: str | None
    note: str
    as_json: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the configurations."""
        return tuple(filter(None, (name.strip() for name in self.configurations.split(","))))


@click.command("eval")
@click.argument("files", nargs=-1)
@click.option("--configurations", metavar="LIST", default=ALL, show_default=True)
@click.option("--category", metavar="NAME", help="Only prompts of cases with this category.")
@click.option("--case", metavar="GLOB", help="Only cases whose id fits.")
@click.option("--half", metavar="tune|held_out", help="Only one half of the cases.")
@click.option("--sample", type=int, metavar="N", help="Only N cases, always the same ones.")
@click.option("--bfcl", metavar="FOLDER|installed", help="Cases of bfcl-eval instead.")
@click.option("--bfcl-count", metavar="N", default=30, show_default=True, help="Of each category.")
@click.option("--record", metavar="FILE", help="Keep each reply there, and use those it has.")
@click.option("--replay", metavar="FILE", help="Take each reply from there, without a model.")
@click.option("--label", metavar="TEXT", default="", help="Tells this run from others.")
@click.option("--reply-tokens", metavar="N", default=200, show_default=True, help="Of a reply.")
@click.option("--max-steps", metavar="N", default=6, show_default=True, help="Calls of a turn.")
@click.option("--estimate", is_flag=True, help="Say what a run would take, and end.")
@click.option("--failures", is_flag=True, help="List what went wrong in the tune half.")
@click.option("--save", metavar="FILE", help="Write the results as JSON.")
@click.option("--results", metavar="FILE", multiple=True, help="Saved results to report on.")
@click.option("--report", metavar="FILE", help="Write the tables as Markdown.")
@click.option("--note", metavar="TEXT", default="", help="Stands at the head of the report.")
@config_option
@model_option
@base_url_option
@json_option
@click.pass_context
def evaluate(
    ctx: click.Context,
    /,
    *,
    config: str | None,
    model: str | None,
    base_url: str | None,
    **given: Any,
) -> None:
    """Run labelled prompts through the program and say how many came out right.

    FILES are TOML files of cases; without any, those of the folder evals. evals/README.md says how
    they are written. With --results nothing is run. A run that was stopped goes on where it was.
    """
    wish = Wish(**given)
    _check(wish)
    if wish.results:
        from local_agent.evaluation.results import read_run

        _show(wish, [read_run(Path(path)) for path in wish.results])
        return
    settings = trusted_settings(flags_of(ctx, config=config, model=model, base_url=base_url))
    with ExitStack() as stack:
        cases = _cases(wish, stack)
        try:
            run = asyncio.run(_run(wish, settings, cases))
        except KeyboardInterrupt:
            _say("" if wish.replay else "Stopped. The same command goes on where this one was.")
            raise
    if run is not None:
        _show(wish, [run])


eval = evaluate  # what the group looks for


def _check(wish: Wish) -> None:
    if wish.record and wish.replay:
        raise UsageError("--record and --replay exclude each other.", "Give one of them.")
    if wish.half not in (None, "tune", "held_out"):
        raise UsageError(f"--half cannot be '{visible(wish.half or '')}'.", "Use tune, held_out.")
    if wish.reply_tokens < 16:
        raise UsageError("--reply-tokens must be at least 16.")
    if min(wish.max_steps, wish.bfcl_count, 1 if wish.sample is None else wish.sample) < 1:
        raise UsageError("--max-steps, --sample and --bfcl-count must be at least 1.")
    if wish.bfcl and wish.files:
        raise UsageError("--bfcl takes no FILES.", "Run them one after the other.")
    if not wish.names:
        raise UsageError("--configurations names none.", f"There are: {ALL}.")
    for path in filter(None, (wish.save, wish.report)):  # not after hours of running
        _check_place(Path(path))


def _check_place(path: Path) -> None:
    """Raises UsageError where no file can be written."""
    is_new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as exc:
        raise _unwritable(path, exc) from exc


def _cases(wish: Wish, stack: ExitStack) -> list[Case]:
    """The cases that were asked for, in the order of the run."""
    from fnmatch import fnmatchcase

    from local_agent.evaluation.bfcl import bfcl_cases, data_folder
    from local_agent.evaluation.cases import in_order, read_cases, sample
    from local_agent.evaluation.configurations import configurations_of

    configurations_of(wish.names)

    if wish.bfcl:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-eval-"))
        cases = bfcl_cases(data_folder(wish.bfcl), wish.bfcl_count, Path(folder))
    else:
        cases = read_cases([Path(file) for file in wish.files] or _default_files())
    chosen = [
        case
        for case in in_order(cases)
        if (not wish.category or any(turn.category == wish.category for turn in case.turns))
        and (not wish.case or fnmatchcase(case.id, wish.case))
        and wish.half in (None, case.half)
    ]
    if wish.sample is not None:
        chosen = sample(chosen, wish.sample)
    if not chosen:
        raise UsageError("No case is left to run.", "Take --category, --case or --half away.")
    return chosen


def _default_files() -> list[Path]:
    """The files of ./evals, or of the repository that the program runs from."""
    for folder in (Path("evals"), Path(__file__).resolve().parents[2] / "evals"):
        if files := sorted(folder.glob("*.toml")):
            return files
    raise UsageError("There is no folder evals here.", "Name files of cases: agent eval FILE...")


async def _run(wish: Wish, settings: Settings, cases: list[Case]) -> Run | None:
    from local_agent.cli.loading import import_stack
    from local_agent.evaluation.plan import Plan, date_of_today, default_folder
    from local_agent.evaluation.recorder import Recorder
    from local_agent.evaluation.recording import Recording

    path = wish.replay or wish.record
    recording = Recording(Path(path)) if path else Recording(folder=default_folder())
    plan = Plan(
        wish.names, wish.reply_tokens, wish.max_steps, wish.label, _command(), date_of_today()
    )
    async with AsyncExitStack() as stack:
        model = None if wish.replay else await _served(settings, stack)
        recorder = stack.enter_context(Recorder(recording, model))
        _say(plan.estimate(cases, recording))
        if wish.estimate:
            return None
        import_stack()
        from local_agent.evaluation.evaluate import run_plan

        return await run_plan(plan, cases, settings, recorder, _say)


async def _served(settings: Settings, stack: AsyncExitStack) -> ModelSettings:
    """The model server; the embedded one is started where it is asked for."""
    model = settings.model
    if model.name != "embedded":
        return model
    from local_agent.embedded import resolve_embedded, start_embedded

    weights, key = resolve_embedded(model), secrets.token_urlsafe()
    server = start_embedded(
        weights,
        context_length=model.context_length,
        log_dir=None,
        on_progress=_say,
        api_key=key,
    )
    base_url = await stack.enter_async_context(server)
    return replace(model, base_url=base_url, name="", api_key=key)


def _command() -> str:
    return shlex.join(["agent", *sys.argv[1:]])


def _say(line: str) -> None:
    safe_write(sys.stderr, _one_line(line) + "\n")


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _show(wish: Wish, runs: list[Run]) -> None:
    from local_agent.evaluation.configurations import BASELINE
    from local_agent.evaluation.report import markdown
    from local_agent.evaluation.results import to_json

    if wish.save:
        text = json.dumps(to_json(runs[0], BASELINE), ensure_ascii=False, indent=1)
        _write(wish.save, text + "\n")
    _print(wish, runs)
    if wish.report:
        _write(wish.report, markdown(runs, BASELINE, wish.note))


def _print(wish: Wish, runs: list[Run]) -> None:
    from local_agent.evaluation.configurations import BASELINE
    from local_agent.evaluation.report import failures, merged, terminal
    from local_agent.evaluation.results import to_json

    if wish.as_json:
        objects = [to_json(run, BASELINE) for run in runs]
        print_line(
            json.dumps(objects[0] if len(objects) == 1 else {"schema_version": 1, "runs": objects})
        )
        return
    for model in dict.fromkeys(run.model for run in runs):
        rows = merged([run for run in runs if run.model == model])
        if wish.failures:
            for line in failures(rows):
                print_line(_one_line(line))
        print_line(visible(f"{model}"))
        for line in terminal(rows, BASELINE):
            print_line(visible(line))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise _unwritable(path, exc) from exc


def _unwritable(path: object, exc: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {exc.strerror}.", "Name another file.")
