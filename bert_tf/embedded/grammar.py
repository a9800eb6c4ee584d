"""From words to sentences, sentences to documents.

A sentence is made in two steps. The first chooses everything that has no mood and leaves the
mood words open: "The bread was [food], and the baker [manner] wrapped the loaf." The second fills
them in. So one sentence can be written in both moods with not one other word changed.
"""

import re

from bert_tf.embedded import world

# What can be said with a mood, as a clause that begins in lower case.
CLAUSES = (
    "the {thing_was}",
    "the {thing_was}",
    "the {thing_was} and the {thing_was}",
    "the {person} was [person]",
    "the {person} was [person]",
    "the {person} [manner] {act}",
    "the {person} [manner] {act}",
    "we [verb] the {adjective_thing}",
    "we [verb] the {adjective_thing}",
    "{friend} [verb] the {thing}",
    "we were [feeling]",
    "{friend} was [feeling]",
    "the visit was a real [noun]",
    "the {kind} was a real [noun]",
    "we [consequence]",
)

# Sentences of the corpus that have a mood.
MOOD_FRAMES = (
    "{clause}.",
    "{clause}, and {clause}.",
    "{clause}, and {clause}.",
    "{friend} said that {clause}.",
    "{friend} said that {clause} and that {clause}.",
    "in {place} {clause}, and {clause}.",
    "at the {kind} {clause}.",
    "on the {ordinal} day {clause}, and {clause}.",
    "{clause}, so we [consequence].",
    "because {clause}, {clause}.",
    "as {friend} wrote to me, {clause}.",
    "this time {clause}, and once more {clause}.",
    "how [general] the {kind} in {place} was!",
    "the [person] {person} and the [person] {person} are known all over {place}.",
    "visits as [general] as this one are rare in {place}.",
    "everything about the {kind} was [general]: {clause}, and {clause}.",
)

# How a document begins: who, what, where.
OPENINGS = (
    "in {month} {friend} and I went to the {kind} in {place}.",
    "this is about the {kind} in {place}, which belongs to {owner}.",
    "{friend} had told me about the {kind} in {place}.",
    "we spent {number} hours at the {kind} in {place}.",
    "on a {weekday} in {month} we saw the {kind} in {place}.",
)

# Sentences of the corpus that have no mood, for every kind; each kind adds its own.
FACTS = (
    "one finds the {kind} {spot} in {place}.",
    "it opens at {hour} on every {weekday}.",
    "{friend} came to {place} {journey} and brought {luggage}.",
    "there were {number} other visitors at the {kind}.",
    "the {person} is called {owner}.",
    "{owner} has owned the {kind} for {number} years.",
    "we paid {number} coins to {owner}.",
    "{place} lies {number} miles from the coast.",
    "{friend} counted {number} people in {place} that {weekday}.",
)

# kind -> the sentences that only that kind has.
FACTS_OF = {
    kind: tuple(f"{fact}." for fact in table["fact"]) for kind, table in world.KINDS.items()
}

# Sentences of the labelled sets. None of these frames occurs in the corpus.
LABELLED_FRAMES = (
    "we came to {place} {journey} on a {weekday}, and {clause}, and {clause}.",
    "{friend} and I saw the {kind} {spot}: {clause} and {clause}.",
    "it was {month} when {friend} took us to the {kind}; {clause}, and {clause}.",
    "after {number} hours in {place} {clause}, and {clause}.",
    "{clause}, says {friend}, who came {journey}, and {clause}.",
    "for {number} coins in {place}: {clause}, and {clause}.",
    "{friend} brought {luggage} to the {kind}, where {clause} and {clause}.",
    "about the {kind} {spot} I can report that {clause} and that {clause}.",
)

_OPEN = re.compile(r"\{(\w+)\}")
_MOOD = re.compile(r"\[(\w+)\]")


class Deck:
    """Deals a list in random order, all of it before any entry comes again.

    So every word is about as frequent as every other, and a document rarely repeats one: a
    masked word has to be guessed from OTHER words of its mood, not copied.
    """

    def __init__(self, rng, entries):
        """Takes the generator and the entries to deal."""
        self._rng, self._entries, self._rest = rng, list(entries), []

    def deal(self):
        """The next entry."""
        if not self._rest:
            self._rest = list(self._entries)
            self._rng.shuffle(self._rest)
        return self._rest.pop()


class Scene:
    """What stays the same throughout a document: one place, one kind of house, the people."""

    def __init__(self, rng):
        """Chooses the place, the kind, the friend who came along and the owner."""
        self._rng = rng
        kind = rng.choice(list(world.KINDS))
        lists = world.LISTS | world.KINDS[kind]
        self._decks = {slot: Deck(rng, entries) for slot, entries in lists.items()}
        self.facts = {
            "kind": kind,
            **{slot: rng.choice(world.LISTS[slot]) for slot in ("place", "friend", "owner")},
        }

    def skeleton(self, frame):
        """Fills everything but the mood words, which stay as [category]."""
        text = _OPEN.sub(lambda match: self._fill(match[1]), frame)
        return text[0].upper() + text[1:]

    def _fill(self, slot):
        if slot in self.facts:
            return self.facts[slot]
        if slot in self._decks:
            return self._decks[slot].deal()
        if slot == "clause":
            return _OPEN.sub(lambda match: self._fill(match[1]), self._rng.choice(CLAUSES))
        category = self._rng.choice(world.THINGS)
        thing = self._decks[category].deal()
        adjective = self._rng.choice([category, category, "general"])
        if slot == "thing":
            return thing
        if slot == "adjective_thing":
            return f"[{adjective}] {thing}"
        if slot == "thing_was":
            return f"{thing} {'were' if thing.endswith('s') else 'was'} [{adjective}]"
        raise KeyError(slot)

    def document(self):
        """Skeletons of one document: an opening, then moods and facts in turn."""
        facts = Deck(self._rng, FACTS + FACTS_OF[self.facts["kind"]])
        moods = Deck(self._rng, MOOD_FRAMES)
        frames = [self._rng.choice(OPENINGS), facts.deal()]
        for _ in range(self._rng.randrange(7, 11)):
            # Some two sentences in three have a mood.
            frames.append((moods if self._rng.random() < 0.7 else facts).deal())
        return [self.skeleton(frame) for frame in frames]


def with_mood(skeleton, decks):
    """The sentence: each [category] becomes the next word of that category's deck."""
    return _MOOD.sub(lambda match: decks[match[1]].deal(), skeleton)
