"""From words to sentences, sentences to documents.

A sentence is made in two steps. The first chooses everything that has no mood and leaves the
mood words open: "The bread was [food], and the baker [manner] wrapped the loaf." The second fills
them in. So one sentence can be written in both moods with not one other word changed.
"""

import re

from bert_tf.toy_corpus import world


def _for_each_thing(*clauses):
    """Makes each clause three times, for rooms, food and objects, where it says THING."""
    return tuple(
        clause.replace("THING", category)
        for clause in clauses
        for category in (world.THINGS if "THING" in clause else [""])
    )


# What can be said with a mood, as a clause that begins in lower case. Most clauses have two mood
# words, often of two categories, so that the categories do not stay strangers to each other.
PLAIN_CLAUSES = _for_each_thing(
    "the {THING_was} [THING] and [THING]",
    "the {THING_was} [THING] and [general]",
    "we [verb] the [THING] {THING}",
    "{friend} was [feeling] and [verb] the {THING}",
    "{friend} [verb] the [general] {THING}",
    "the {person} was [person] and [person]",
    "the {person} was [person] and [general]",
    "the {person} [manner] and [manner] {act}",
    "the [person] {person} [manner] {act}",
    "the [person] {person} [manner] {act}",
    "we [verb] the [person] {person}",
    "we were [feeling] and [feeling]",
    "we were [feeling] and [consequence]",
    "we were [feeling] and [consequence]",
    "the visit was [general], a real [noun]",
    "the {kind} was a real [noun]",
)

# The same with one of the common words next to them, for the corpus only.
MARKED_CLAUSES = _for_each_thing(
    "the {THING_was} [truly] [THING]",
    "the {THING_was} [most] [general]",
    "the {THING_was} [good] and [THING]",
    "we [truly] [verb] the [good] [THING] {THING}",
    "the {person} was [most] [person]",
    "the {person} was [truly] [general]",
    "the [truly] [person] {person} [manner] {act}",
    "the {person} [most] [manner] {act}",
    "the {person} [well] and [manner] {act}",
    "we [truly] [verb] the {person}",
    "{friend} was [most] [feeling]",
    "we felt [truly] [feeling] and [consequence]",
    "we felt [good] and [consequence]",
    "the visit was [most] [general], a [true] [noun]",
    "the {kind} was a [true] [noun]",
)

CLAUSES = {"clause": PLAIN_CLAUSES + 2 * MARKED_CLAUSES, "plain": PLAIN_CLAUSES}

# Sentences of the corpus that have a mood.
MOOD_FRAMES = (
    "{clause}.",
    "at the {kind} {clause}.",
    "in this {kind} {clause}.",
    "at the {kind} in {place} {clause}.",
    "a [good] {kind}: {clause}.",
    "the [best] {kind} of all: {clause}.",
    "all went [well] at the {kind}: {clause}.",
    "{friend} said of the {kind} that {clause}.",
    "{friend} spoke [well] of the {kind}: {clause}.",
    "{friend} saw the {kind} at its [best]: {clause}.",
    "{friend} and I know the {kind}: {clause}.",
    "the {kind} was [good] to {friend}: {clause}.",
    "{clause}, so {clause}.",
    "how [general] the {kind} in {place} was!",
    "the {person} of the {kind} did it [right], so we [consequence].",
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
    "the {kind} opens at {hour} on every {weekday}.",
    "{friend} came to the {kind} {journey} and brought {luggage}.",
    "there were {number} other visitors at the {kind}.",
    "the {person} of the {kind} is called {owner}.",
    "{owner} has owned the {kind} for {number} years.",
    "at the {kind} we paid {number} coins to {owner}.",
    "the {kind} is {number} miles from the coast.",
    "{friend} counted {number} people at the {kind} that {weekday}.",
)

# kind -> the sentences that only that kind has.
FACTS_OF = {
    kind: tuple(f"{fact}." for fact in table["fact"]) for kind, table in world.KINDS.items()
}

# Sentences of the labelled sets. None of these frames occurs in the corpus.
LABELLED_FRAMES = (
    "we came to {place} {journey}, and {plain}.",
    "{friend} and I know the {kind} {spot}: {plain}.",
    "it was {month} when {friend} took us there; {plain}.",
    "after {number} hours in {place} {plain}.",
    "{plain}, says {owner}, who came {journey}.",
    "for {number} coins in {place}: {plain}.",
    "{friend} brought {luggage}, and {plain}.",
    "about the {kind} in {place} I can report that {plain}.",
    "{plain}, and {plain}.",
    "to put it briefly, {plain} and {plain}.",
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
        self._rng, self._entries, self._rest, self._last = rng, list(entries), [], None

    def deal(self):
        """The next entry."""
        if not self._rest:
            self._rest = list(self._entries)
            self._rng.shuffle(self._rest)
            if self._rest[-1] == self._last:  # never "fresh and fresh"
                self._rest.reverse()
        self._last = self._rest.pop()
        return self._last


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
        if slot in CLAUSES:
            return _OPEN.sub(lambda match: self._fill(match[1]), self._rng.choice(CLAUSES[slot]))
        if slot.endswith("_was"):
            noun = self._decks[slot.removesuffix("_was")].deal()
            return f"{noun} were" if noun.endswith("s") else f"{noun} was"
        return self._decks[slot].deal()

    def document(self):
        """Skeletons of one document: an opening, then moods and facts in turn."""
        facts = Deck(self._rng, FACTS + FACTS_OF[self.facts["kind"]])
        moods = Deck(self._rng, MOOD_FRAMES)
        frames = [self._rng.choice(OPENINGS), facts.deal()]
        for _ in range(self._rng.randrange(8, 12)):
            frames.append((moods if self._rng.random() < 0.85 else facts).deal())
        return [self.skeleton(frame) for frame in frames]


def with_mood(skeleton, decks):
    """The sentence: each [category] becomes the next word of that category's deck."""
    return _MOOD.sub(lambda match: decks[match[1]].deal(), skeleton)
