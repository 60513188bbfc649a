"""Settings and where they come from: flags > environment > file > default."""

from local_agent.config.address import normalize_base_url
from local_agent.config.commands import resolve_command
from local_agent.config.document import content_hash
from local_agent.config.load import check_thread_name, load_memory_key, load_settings
from local_agent.config.masking import mask, show_url, visible
from local_agent.config.places import Folders, Places, locate, user_folders
from local_agent.config.settings import (
    FILE_NAME,
    ContextSettings,
    Flags,
    MemorySettings,
    ModelSettings,
    RepairSettings,
    RouterSettings,
    RouteSpec,
    ServerSpec,
    Settings,
)
from local_agent.config.show import Shown, secrets_of, shown

__all__ = [
    "FILE_NAME",
    "ContextSettings",
    "Flags",
    "Folders",
    "MemorySettings",
    "ModelSettings",
    "Places",
    "RepairSettings",
    "RouteSpec",
    "RouterSettings",
    "ServerSpec",
    "Settings",
    "Shown",
    "check_thread_name",
    "content_hash",
    "load_memory_key",
    "load_settings",
    "locate",
    "mask",
    "normalize_base_url",
    "resolve_command",
    "secrets_of",
    "show_url",
    "shown",
    "user_folders",
    "visible",
]
