"""The grammar of the toy corpus, which builds sentences and documents from words.

A sentence is built in two steps. The first fills in all neutral parts but leaves the sentiment
words open: "The bread was [food], and the baker [manner] wrapped the loaf." The second fills in the
sentiment words. So two sentences can differ only in their sentiment words.

In a template, `{slot}` is a neutral part and `[category]` a sentiment word.
"""

import re

from examples.toy_corpus import words


def _for_each_noun_slot(*clauses):
    return tuple(
        clause.replace("NOUN", slot)
        for clause in clauses
        for slot in (words.NOUN_SLOTS if "NOUN" in clause else [""])
    )


# Clauses with a sentiment. Most have two sentiment words, often from two categories, so that the
# categories co-occur.
PLAIN_CLAUSES = _for_each_noun_slot(
    "the {NOUN_was} [NOUN] and [NOUN]",
    "the {NOUN_was} [NOUN] and [general]",
    "we [verb] the [NOUN] {NOUN}",
    "{friend} was [feeling] and [verb] the {NOUN}",
    "{friend} [verb] the [general] {NOUN}",
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
    "the {venue} was a real [noun]",
)

# Similar clauses with a common word, only for the corpus.
MARKED_CLAUSES = _for_each_noun_slot(
    "the {NOUN_was} [truly] [NOUN]",
    "the {NOUN_was} [most] [general]",
    "the {NOUN_was} [good] and [NOUN]",
    "we [truly] [verb] the [good] [NOUN] {NOUN}",
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
    "the {venue} was a [true] [noun]",
)

CLAUSES = {"clause": PLAIN_CLAUSES + 2 * MARKED_CLAUSES, "plain": PLAIN_CLAUSES}

# Sentences of the corpus with a sentiment.
SENTIMENT_TEMPLATES = (
    "{clause}.",
    "at the {venue} {clause}.",
    "in this {venue} {clause}.",
    "at the {venue} in {place} {clause}.",
    "a [good] {venue}: {clause}.",
    "the [best] {venue} of all: {clause}.",
    "all went [well] at the {venue}: {clause}.",
    "{friend} said of the {venue} that {clause}.",
    "{friend} spoke [well] of the {venue}: {clause}.",
    "{friend} saw the {venue} at its [best]: {clause}.",
    "{friend} and I know the {venue}: {clause}.",
    "the {venue} was [good] to {friend}: {clause}.",
    "{clause}, so {clause}.",
    "how [general] the {venue} in {place} was!",
    "the {person} of the {venue} did it [right], so we [consequence].",
)

# The first sentence of a document: who, what, where.
OPENINGS = (
    "in {month} {friend} and I went to the {venue} in {place}.",
    "this is about the {venue} in {place}, which belongs to {owner}.",
    "{friend} had told me about the {venue} in {place}.",
    "we spent {number} hours at the {venue} in {place}.",
    "on a {weekday} in {month} we saw the {venue} in {place}.",
)

# Neutral sentences of the corpus, for all venues.
FACTS = (
    "one finds the {venue} {spot} in {place}.",
    "the {venue} opens at {hour} on every {weekday}.",
    "{friend} came to the {venue} {journey} and brought {luggage}.",
    "there were {number} other visitors at the {venue}.",
    "the {person} of the {venue} is called {owner}.",
    "{owner} has owned the {venue} for {number} years.",
    "at the {venue} we paid {number} coins to {owner}.",
    "the {venue} is {number} miles from the coast.",
    "{friend} counted {number} people at the {venue} that {weekday}.",
)

# Venue -> neutral sentences only for this venue.
VENUE_FACTS = {
    venue: tuple(f"{fact}." for fact in slots["fact"]) for venue, slots in words.VENUES.items()
}

# Sentences of the labeled sets. None of these templates occurs in the corpus.
LABELLED_TEMPLATES = (
    "we came to {place} {journey}, and {plain}.",
    "{friend} and I know the {venue} {spot}: {plain}.",
    "it was {month} when {friend} took us there; {plain}.",
    "after {number} hours in {place} {plain}.",
    "{plain}, says {owner}, who came {journey}.",
    "for {number} coins in {place}: {plain}.",
    "{friend} brought {luggage}, and {plain}.",
    "about the {venue} in {place} I can report that {plain}.",
    "{plain}, and {plain}.",
    "to put it briefly, {plain} and {plain}.",
)

_SLOT = re.compile(r"\{(\w+)\}")
_CATEGORY = re.compile(r"\[(\w+)\]")


class ShuffledCycle:
    """Draws the entries of a list in random order, all of them once before any is repeated.

    So all words are about equally frequent, and a document rarely repeats one. A masked word must
    be predicted from OTHER words of the same sentiment and cannot be copied.
    """

    def __init__(self, rng, entries):
        self._rng, self._entries, self._rest, self._last = rng, list(entries), [], None

    def draw(self):
        """Return the next entry."""
        if not self._rest:
            self._rest = list(self._entries)
            self._rng.shuffle(self._rest)
            if self._rest[-1] == self._last:  # never "fresh and fresh"
                self._rest.reverse()
        self._last = self._rest.pop()
        return self._last


class Scene:
    """The place, the venue and the people of a document."""

    def __init__(self, rng):
        self._rng = rng
        venue = rng.choice(list(words.VENUES))
        slots = words.SLOTS | words.VENUES[venue]
        self._cycles = {slot: ShuffledCycle(rng, entries) for slot, entries in slots.items()}
        self._fixed = {slot: rng.choice(words.SLOTS[slot]) for slot in ("place", "friend", "owner")}
        self._fixed["venue"] = venue

    def neutral_document(self):
        """Return the sentences of a document, with sentiment words left open."""
        facts = ShuffledCycle(self._rng, FACTS + VENUE_FACTS[self._fixed["venue"]])
        sentiments = ShuffledCycle(self._rng, SENTIMENT_TEMPLATES)
        templates = [self._rng.choice(OPENINGS), facts.draw()]
        for _ in range(self._rng.randrange(8, 12)):
            templates.append((sentiments if self._rng.random() < 0.85 else facts).draw())
        return [self.neutral_sentence(template) for template in templates]

    def neutral_sentence(self, template):
        """Fill all slots of a template; leave sentiment words open as [category]."""
        text = _SLOT.sub(lambda match: self._fill(match[1]), template)
        return text[0].upper() + text[1:]

    def _fill(self, slot):
        if slot in self._fixed:
            return self._fixed[slot]
        if slot in CLAUSES:
            return _SLOT.sub(lambda match: self._fill(match[1]), self._rng.choice(CLAUSES[slot]))
        if slot.endswith("_was"):
            noun = self._cycles[slot.removesuffix("_was")].draw()
            return f"{noun} were" if noun.endswith("s") else f"{noun} was"
        return self._cycles[slot].draw()


def fill_sentiment(sentence, cycles):
    """Replace each [category] in a neutral sentence by the next word of the category's cycle."""
    return _CATEGORY.sub(lambda match: cycles[match[1]].draw(), sentence)
