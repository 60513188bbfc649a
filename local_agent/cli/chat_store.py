"""The commands of the chat over all threads: search, rename, delete, prune."""

from __future__ import annotations

import asyncio
import os

from local_agent.app import App
from local_agent.cli.chat_reply import Reply
from local_agent.cli.threads_search import LIMIT, found_lines, notes_on, phrases_of
from local_agent.cli.threads_store import done_text, renamed_line, size_text
from local_agent.config import check_thread_name
from local_agent.errors import ThreadError, UsageError
