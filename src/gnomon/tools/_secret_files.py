"""Files that are kept from a model unless somebody names them: keys, passwords, what git runs by itself.

They are known by their names. That is what can be known before a file is opened: one that was renamed, or
has a second name by a hard link, is a file like others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from unicodedata import category, normalize

__all__ = ["secret_by_name", "steers_git"]

_NAMES = (
    # what programs are told of passwords
    ".env", ".env[._-]*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf",
    ".mylogin.cnf", ".htpasswd", ".git-credentials", ".npmrc", ".yarnrc.yml", ".pypirc", ".dockercfg",
    ".terraformrc", "terraform.rc", "credentials.tfrc.json", ".vault-token", ".s3cfg", ".boto",
    "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
    "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json",
    # keys
    "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.ppk", "*.ovpn", "*.kdb",
    "*.kdbx", "*.keychain", "*.keychain-db", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    "ssh_host_*_key",
    # keys of services
    "credentials.json", "client_secret*.json", "application_default_credentials.json",
    "service-account*.json", "service_account*.json", "serviceaccount*.json", "*-service-account.json",
    "*_service_account.json", "*firebase-adminsdk*.json",
    # what was typed
    ".*_history",
)  # fmt: skip
"""In lower case, whatever folder they are in."""

_HARMLESS = (
    ".env[._-]example", ".env[._-]sample", ".env[._-]template", ".env[._-]dist",
    "example.env", "sample.env", "template.env", "*.example.env",
    "*.tfvars.example", "*.tfstate.example", "id_*.pub",
)  # fmt: skip
"""Made to be shown, though they fit one of the above."""

_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".password-store", "keyrings"})
"""All that lies in them."""

_PLACES = (
    (".kube", "config"), (".docker", "config.json"), (".config", "gcloud"), (".config", "gh", "hosts.yml"),
    (".config", "containers", "auth.json"), (".config", "git", "credentials"), (".config", "gnomon"),
    (".gnomon", "config.toml"), (".cargo", "credentials"), (".cargo", "credentials.toml"),
    (".gem", "credentials"), (".m2", "settings.xml"), (".m2", "settings-security.xml"),
    (".gradle", "gradle.properties"), (".composer", "auth.json"), (".codex", "auth.json"),
    (".claude", ".credentials.json"), (".terraform.d", "credentials.tfrc.json"),
)  # fmt: skip
"""By several names in a row: that file, or all in that folder."""

_COPIES = re.compile(r"(?:~|\.(?:bak|backup|old|orig|save|saved|copy|swp|swo|tmp|\d{1,3}))$")
_SWAPPED = re.compile(r"\.(.+)\.sw[a-p]")
"""What an editor keeps beside a file while it is open, hidden by a dot."""

_RUN_BY_THEMSELVES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
_TOKENS_OF_GIT = frozenset({"config", "config.worktree", "credentials", "hgrc"})

_secret_name = re.compile("|".join(map(translate, _NAMES)))
_harmless_name = re.compile("|".join(map(translate, _HARMLESS)))


def secret_by_name(path: str, above: Sequence[str] = ()) -> bool:
    """Whether the file of this path looks like a secret; `above` are the folders that it counts from."""
    names = [_plain(name) for name in path.split("/")]
    return (
        _is_secret_name(names[-1])
        or _is_secret_place([*map(_plain, above), *names])
        or (steers_git(path) and names[-1] in _TOKENS_OF_GIT)
    )


def steers_git(path: str) -> bool:
    """Whether it is the own folder of a version control, or in one: what is written there may be run later,
    by whoever next uses it. A file called `.git` may send them to another such folder."""
    names = {_plain(name) for name in path.split("/")}
    return not names.isdisjoint(_RUN_BY_THEMSELVES) or "git~1" in names


def _is_secret_name(name: str) -> bool:
    while True:
        if _harmless_name.match(name):
            return False
        if _secret_name.match(name):
            return True
        hidden = _SWAPPED.fullmatch(name)
        if hidden is not None and _secret_name.match(hidden[1]) and not _harmless_name.match(hidden[1]):
            return True
        shorter = _COPIES.sub("", name).removeprefix("#").removesuffix("#")
        if shorter == name:
            return False
        name = shorter


def _is_secret_place(names: Sequence[str]) -> bool:
    if not _FOLDERS.isdisjoint(names[:-1]):
        return True
    return any(
        tuple(names[at : at + len(place)]) == place
        for place in _PLACES
        if place[0] in names
        for at in range(len(names) - len(place) + 1)
    )


def _plain(name: str) -> str:
    """The name as file systems that are less exact have it: without case, and without what cannot be seen."""
    if not name.isascii():
        name = "".join(letter for letter in normalize("NFKC", name) if category(letter) != "Cf")
    return name.casefold().rstrip(" .")
