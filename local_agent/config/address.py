"""Brings the address of a model server into the form that the client needs."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from local_agent.config.servers import wrong_url

_ENDPOINT = re.compile(r"/(chat/completions|completions|models|responses)/*$")


def normalize_base_url(given: str) -> tuple[str, str]:
    """Return (address, "") or ("", what is wrong, completing "base_url ...").

    A missing http:// is added for this machine and private networks only: elsewhere http would
    send the conversation in the open, which nobody asked for. A missing path becomes /v1, other
    paths stay; slashes at the end and the name of an endpoint behind it are taken off.
    """
    url = given.strip()
    if not url:
        return "", "is empty"
    if "://" not in url:
        if not _is_near(url):
            return "", "does not begin with http:// or https://"
        url = f"http://{url}"
    if wrong := wrong_url(url):
        return "", wrong
    parts = urlsplit(url)
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        return "", "has a ? or # part, which a base address cannot have"
    path = _ENDPOINT.sub("", parts.path.rstrip("/")).rstrip("/")
    return parts._replace(path=path or "/v1").geturl(), ""


def _is_near(url: str) -> bool:
    try:
        host = urlsplit(f"//{url}").hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_private
