"""What became of the drafts: counters while they grow, and as one frozen value."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DraftStats:
    """Counts since the engine was made; every drafted token is accepted or rewound.

    `drafted_at[j]` rows had a draft at place j + 1 after their last known token, and in
    `accepted_at[j]` of them it was accepted.
    """

    drafted_at: tuple[int, ...] = ()
    accepted_at: tuple[int, ...] = ()
    rewound_pages: int = 0
    proposer_failures: int = 0

    @property
    def drafted_tokens(self) -> int:
        return sum(self.drafted_at)

    @property
    def accepted_tokens(self) -> int:
        return sum(self.accepted_at)

    @property
    def rewound_tokens(self) -> int:
        return self.drafted_tokens - self.accepted_tokens


@dataclass(slots=True)
class DraftCounters:
    """Places are counted up to the most tokens that are ever drafted for one row."""

    drafted_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    rewound_pages: int = 0
    proposer_failures: int = 0

    def count(self, num_drafted: int, num_accepted: int, num_rewound_pages: int) -> None:
        """Take in the outcome of one row with drafts."""
        missing = num_drafted - len(self.drafted_at)
        self.drafted_at += [0] * missing
        self.accepted_at += [0] * missing
        for place in range(num_drafted):
            self.drafted_at[place] += 1
            self.accepted_at[place] += place < num_accepted
        self.rewound_pages += num_rewound_pages

    def stats(self) -> DraftStats:
        return DraftStats(
            tuple(self.drafted_at),
            tuple(self.accepted_at),
            self.rewound_pages,
            self.proposer_failures,
        )
