"""The word lists that scripted worlds and requests are drawn from, and draws that several of them make."""

from __future__ import annotations

import random
from collections.abc import Collection


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


STEMS = _words(
    "report notes budget draft summary plan invoice log data config readme agenda review project "
    "result test backup image letter memo paper sales stock order price list table chart model train "
    "eval score user client team task todo ideas recipe travel music video photo guide manual lesson "
    "course grade exam essay story poem diary quote budget forecast audit survey poll vote index "
    "catalog archive record"
)
DIRECTORIES = _words(
    "docs work home temp src lib assets media inbox outbox public private shared old new final "
    "pictures songs reports letters papers plans archives backups projects results tests images logs "
    "drafts"
)
WORDS = _words(
    "alpha beta gamma delta apple banana cherry grape lemon mango orange red green blue black white "
    "yellow cat dog bird fish horse lion tiger river ocean mountain forest desert island cloud rain "
    "snow wind storm sun moon star north south east west fast slow high low open closed ready pending "
    "done urgent monday friday spring summer winter quality growth revenue cost profit error warning "
    "info debug"
)
PEOPLE = _words(
    "Ada Ben Carla David Emma Felix Grace Hugo Irene Jonas Karin Leo Maria Nils Olga Paul Rosa Simon "
    "Tina Victor"
)
EXTENSIONS = ("txt", "md", "csv", "log", "py", "json")


def fresh_file(rng: random.Random, used: Collection[str]) -> str:
    """A file name that is not in `used`: a stem, two joined by `_`, or one and a number; an extension."""
    while True:
        stem, form = rng.choice(STEMS), rng.random()
        if form < 0.35:
            stem += "_" + rng.choice(STEMS)
        elif form < 0.55:
            stem += str(rng.randint(1, 99))
        name = f"{stem}.{rng.choice(EXTENSIONS)}"
        if name not in used:
            return name


def random_text(rng: random.Random) -> str:
    """One line of one to three words."""
    return " ".join(rng.sample(WORDS, rng.randint(1, 3)))
