"""The messages that the libraries send, compared with the facts on Apple's API."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from apple_check import same
from apple_facts import ASKED_FOR, Fact, load, UNCONFIRMED
from mac_code.encodings import Signature, signature
from mac_code.machine import Stopped

# Selectors whose types no source says, by the lists that are kept by hand.
_LISTED = {method.split()[1].rstrip("]") for method in UNCONFIRMED["methods"]} | ASKED_FOR


class Messages:
    """Counts messages, and stops at one that Apple declares otherwise."""

    def __init__(self, planted: Mapping[str, str]):
        """`planted` are wrong encodings, by selector."""
        self._planted = planted
        # By sign and selector; the simulator's classes have other names than Apple's.
        self._facts: defaultdict[str, list[Fact]] = defaultdict(list)
        for key, facts in load().methods.items():
            self._facts[key[0] + key.split()[1].rstrip("]")] += facts
        self.counts: Counter[str] = Counter()
        self.unconfirmed: set[str] = set()
        # All in their order, also those to objects of the libraries' own classes.
        self.sequence: list[str] = []

    def sent(self, title: str, kind: Signature) -> Signature:
        """Take notice of a message such as `-[Class selector]`; returns the types by which it is sent."""
        selector = title.split()[1].rstrip("]")
        if selector in self._planted:
            kind = signature(self._planted[selector])
        self.counts[title] += 1
        if self.counts[title] == 1:
            self._check(title, selector, (kind.result.code, *(each.code for each in kind.arguments[2:])))
        return kind

    def _check(self, title: str, selector: str, ours: tuple[str, ...]) -> None:
        known = self._facts[title[0] + selector]
        matching = [each for each in known if len(each.types) == len(ours) and all(map(same, ours, each.types))]
        if known and not matching:
            said = f"{' '.join(known[0].types)} by {known[0].source}"
            raise Stopped(f"{title} is {' '.join(ours)} here and {said}")
        if not known and selector not in _LISTED:
            raise Stopped(f"no source says what {title} takes")
        if not known:
            self.unconfirmed.add(title)

    def report(self) -> dict[str, object]:
        """How many messages were sent, and of how many kinds; those of which no source says the types."""
        kinds, unsourced = len(self.counts), sorted(self.unconfirmed)
        checked = kinds - len(unsourced)
        return {"sent": self.counts.total(), "kinds": kinds, "checked": checked, "unsourced": unsourced}
