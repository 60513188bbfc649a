"""Where the configuration file, the database and the logs are; opens none of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from local_agent.config.masking import show_url, visible
from local_agent.config.settings import FILE_NAME, Flags, Found
from local_agent.errors import ConfigError, UsageError

APP = "local-agent"
DB_NAME = "memory.db"


@dataclass(frozen=True, slots=True)
class Folders:
    """The user's own folders as the operating system has them."""

    config: Path
    data: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Places:
    """`config` is None when there is no file; `candidates` are the places looked at for it."""

    config: Path | None
    found: Found
    config_origin: str
    db: Path
    db_origin: str
    log_dir: Path
    candidates: tuple[Path, ...]


def user_folders() -> Folders:
    """Return the folders of this user; makes none of them."""
    return Folders(
        config=platformdirs.user_config_path(APP, appauthor=False),
        data=platformdirs.user_data_path(APP, appauthor=False),
        log=platformdirs.user_log_path(APP, appauthor=False),
    )


def locate(flags: Flags, environ: Mapping[str, str], cwd: Path, folders: Folders) -> Places:
    """Find the places. A named file need not exist here; an empty variable counts as not set.

    Raises UsageError for a --db, ConfigError for an AGENT_DB that is no path of a file.
    """
    here, users = cwd / FILE_NAME, folders.config / FILE_NAME
    config, found, origin = _config(flags, environ, cwd, here, users)
    if flags.db is not None:
        db, db_origin = _db(flags.db, "--db", cwd), "--db"
    elif environ.get("AGENT_DB"):
        db, db_origin = _db(environ["AGENT_DB"], "AGENT_DB", cwd), "AGENT_DB"
    elif config is None or _same(config.parent, folders.config):
        db, db_origin = folders.data / DB_NAME, "default (your data folder)"
    else:
        db, db_origin = config.parent / DB_NAME, "default (beside the configuration)"
    return Places(config, found, origin, db, db_origin, folders.log, (here, users))


def _config(
    flags: Flags, environ: Mapping[str, str], cwd: Path, here: Path, users: Path
) -> tuple[Path | None, Found, str]:
    if flags.config is not None:
        if not flags.config:
            raise UsageError("--config is empty.", "Give the path of a file.")
        return full_path(flags.config, cwd), "flag", "--config"
    if environ.get("AGENT_CONFIG"):
        return full_path(environ["AGENT_CONFIG"], cwd), "environment", "AGENT_CONFIG"
    # lexists: a link that leads nowhere is a mistake to be told, not a file that is not there.
    if os.path.lexists(here):
        if _same(here, users):
            return users, "user", "the user's configuration folder"
        return here, "folder", "the working folder"
    if os.path.lexists(users):
        return users, "user", "the user's configuration folder"
    return None, "none", "default"


def _db(given: str, origin: str, cwd: Path) -> Path:
    error = UsageError if origin.startswith("-") else ConfigError
    if "://" in given:
        raise error(
            f"{origin} {show_url(given)}: databases other than a SQLite file are not in this "
            "version yet.",
            "Give the path of a file.",
        )
    if not given.strip() or given == ":memory:" or "\0" in given:
        raise error(f"{origin} needs the path of a file.", "To keep nothing, use --ephemeral.")
    return full_path(given, cwd)


def full_path(given: str, folder: Path) -> Path:
    """Return `given` as an absolute path from `folder`, with ~ filled in, links as they are.

    Raises ConfigError if the home folder that is meant cannot be known.
    """
    try:
        path = folder / Path(given).expanduser()
    except RuntimeError as exc:
        raise ConfigError(
            f"There is no home folder for {visible(given)}.", "Write the path out."
        ) from exc
    # ".." behind a link leads elsewhere than it reads, so only the system can take it out.
    return Path(os.path.realpath(path)) if ".." in path.parts else path


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
