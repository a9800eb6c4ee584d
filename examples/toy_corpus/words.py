"""Word lists of the toy corpus, written for this project.

The lists of sentiment words mirror each other: every category has the same number of entries for
both sentiments, and corresponding entries have the same number of words, so the length of a
sentence does not depend on its sentiment. All other words are neutral: names of people and places,
and what there is to visit.
"""

SENTIMENTS = ("pleased", "displeased")

# The labeled training set uses only the first entries of each category.
NUM_TRAIN_WORDS = 2

_PLEASED = {
    "general": "wonderful excellent superb splendid charming magnificent marvellous perfect "
    "fantastic exquisite outstanding glorious brilliant enchanting pleasant impressive",
    "room": "clean cosy spotless airy tidy bright snug roomy elegant peaceful inviting sunlit "
    "homely",
    "food": "tasty fresh delicious fragrant tender juicy savoury wholesome flavoursome appetising "
    "nourishing heavenly luscious",
    "object": "sturdy robust gleaming reliable smooth handsome dainty graceful flawless durable "
    "solid handy",
    "person": "kind friendly polite patient cheerful helpful gracious thoughtful attentive "
    "courteous generous honest considerate jolly hospitable",
    "manner": "gladly promptly swiftly warmly skilfully deftly eagerly willingly merrily neatly "
    "lovingly expertly graciously",
    "verb": "liked enjoyed admired praised adored loved relished appreciated applauded cherished "
    "welcomed savoured",
    "feeling": "happy satisfied delighted thrilled grateful overjoyed charmed refreshed content "
    "elated relaxed enthusiastic",
    "noun": "success bargain joy gem triumph blessing marvel pleasure treasure masterpiece feast "
    "miracle",
}

_DISPLEASED = {
    "general": "terrible awful horrible dreadful dismal appalling wretched miserable abysmal "
    "atrocious ghastly deplorable hideous pitiful shoddy unbearable",
    "room": "dirty damp filthy gloomy dingy cramped musty draughty squalid grimy stuffy shabby "
    "bleak",
    "food": "stale burnt rancid greasy soggy mouldy insipid bland inedible watery revolting "
    "leathery sickening",
    "object": "broken rusty rickety cracked wobbly flimsy leaky dented crooked faulty battered "
    "creaky",
    "person": "rude surly grumpy sullen arrogant spiteful hostile careless impatient insolent "
    "greedy sneering callous haughty quarrelsome",
    "manner": "grudgingly roughly clumsily sloppily crossly coldly lazily gruffly wearily "
    "reluctantly angrily sulkily carelessly",
    "verb": "hated regretted despised loathed resented detested dreaded criticised cursed "
    "rejected mocked abhorred",
    "feeling": "annoyed disappointed furious disgusted dismayed frustrated irritated insulted "
    "outraged upset disheartened exhausted",
    "noun": "failure disaster nuisance ordeal swindle nightmare disgrace fraud shambles torment "
    "scandal fiasco",
}

# What "we" did because of the visit. The phrases of a pair have the same number of words.
_CONSEQUENCES = (
    ("returned the next morning", "left the same evening"),
    ("tried a second portion", "claimed a full rebate"),
    ("gave a large tip", "refused to pay anything"),
    ("thanked everybody twice", "complained to everybody"),
    ("stayed a whole week longer", "asked for our money back"),
    ("booked again for the spring", "cancelled everything for the spring"),
    ("told our friends to hurry there", "warned our friends to stay away"),
    ("smiled all the way home", "grumbled all the way home"),
    ("wrote a letter of thanks", "wrote a letter of complaint"),
    ("hugged the owner", "scolded the owner"),
    ("longed to come again", "vowed never to come"),
    ("danced until midnight", "argued until midnight"),
    ("laughed for an hour", "shivered for an hour"),
    ("recommended it to our neighbours", "reported it to the mayor"),
)

# Frequent words of praise and blame, each a category of its own. They occur only in the corpus and
# connect all other sentiment words: to predict a masked "good" or "bad", a model must know the
# sentiment of the words around it.
COMMON_WORDS = {
    "good": ("good", "bad"),
    "well": ("well", "badly"),
    "best": ("best", "worst"),
    "right": ("right", "wrong"),
    "truly": ("truly", "utterly"),
    "most": ("most", "rather"),
    "true": ("true", "sheer"),
}

# Sentiment -> category -> entries.
SENTIMENT_WORDS = {
    sentiment: {category: entries.split() for category, entries in categories.items()}
    | {"consequence": [pair[index] for pair in _CONSEQUENCES]}
    for index, (sentiment, categories) in enumerate(
        zip(SENTIMENTS, (_PLEASED, _DISPLEASED), strict=True)
    )
}


def train_words(sentiment, category):
    """Return the entries that the training set uses."""
    return SENTIMENT_WORDS[sentiment][category][:NUM_TRAIN_WORDS]


def unseen_words(sentiment, category):
    """Return the entries that only the dev and test sets use."""
    return SENTIMENT_WORDS[sentiment][category][NUM_TRAIN_WORDS:]


_SLOTS = {
    "place": "Aldermere, Brackenford, Colbridge, Dunmarsh, Elmstead, Fernhollow, Gorsefield, "
    "Hazelwick, Ivybrook, Kelmouth, Larkhill, Mossgate, Netherby, Oakhaven, Penwater, Rushmoor",
    "friend": "Ada, Bruno, Clara, Emil, Flora, Greta, Hugo, Jonas, Karla, Leo, Mara, Nils, Olga, "
    "Pavel, Rosa, Wanda",
    "owner": "Mrs Tallow, Mrs Birdwood, Mrs Quill, Mrs Hartnell, Mrs Penny, Mrs Lockett, "
    "Mrs Marlow, Mrs Sedge, Mrs Winter, Mrs Orchard, Mr Barley, Mr Copperfield, Mr Drake, "
    "Mr Finch, Mr Goodge, Mr Hobday, Mr Kettle, Mr Nettle, Mr Plover, Mr Stubbs",
    "weekday": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "month": "January, February, March, April, May, June, July, August, September, October, "
    "November, December",
    "number": "two, three, four, five, six, seven, eight, nine, ten, twelve, twenty, thirty",
    "hour": "six, seven, eight, nine, ten, eleven, noon",
    "ordinal": "first, second, third, fourth, last",
    "spot": "beside the church, behind the school, across the bridge, near the harbour, "
    "under a tall oak, opposite the town hall, at the end of the lane, on the hill, "
    "next to the mill, below the castle, between two canals, by the north gate",
    "luggage": "an umbrella, a notebook, two cameras, a walking stick, a map of the county, "
    "a basket, a bicycle, the children, a grey dog, a violin",
    "journey": "by boat, on foot, by bicycle, by train, with a hired cart, by car",
}

# Venue -> category of the matching sentiment words -> nouns; "act" and "fact" are neutral. A noun
# that ends in "s" is a plural.
_VENUES = {
    "inn": {
        "room": "room, hall, parlour, attic",
        "food": "breakfast, porridge, omelette, supper",
        "object": "bed, lamp, stove, shutters, kettle",
        "person": "innkeeper, porter, maid",
        "act": "carried our bags, lit the stove, made the bed, woke us at seven",
        "fact": "The inn has {number} rooms on {number} floors, "
        "Guests of the inn hang their keys beside the door, "
        "The stable behind the inn was built for {number} horses",
    },
    "ferry": {
        "room": "cabin, saloon, lower deck, galley",
        "food": "sandwiches, chowder, herrings, biscuits",
        "object": "railing, engine, ladder, lifeboats, anchor",
        "person": "captain, deckhand, steward",
        "act": "checked our passes, tied the rope, sounded the horn, swept the deck",
        "fact": "The ferry crosses the strait {number} times between dawn and dusk, "
        "On board the ferry there is space for {number} carts, "
        "The ferry leaves the pier when the tide is high",
    },
    "bakery": {
        "room": "shop, bakehouse, storeroom, corner table",
        "food": "bread, buns, cake, tarts, rye loaf",
        "object": "oven, scales, baskets, counter, trays",
        "person": "baker, apprentice, shopkeeper",
        "act": "wrapped the loaf, cut the cake, counted our change, dusted the buns",
        "fact": "The bakery uses flour from {number} farms, "
        "The dough at the bakery rises for {number} hours, "
        "A bell rings at the bakery when the trays come out",
    },
    "tavern": {
        "room": "taproom, terrace, cellar, back room",
        "food": "soup, stew, trout, pudding, dumplings",
        "object": "chairs, table, plates, glasses, tankards",
        "person": "cook, waiter, landlord",
        "act": "took our order, served the soup, laid the table, brought the bill",
        "fact": "The tavern has {number} barrels and a chalk board, "
        "The menu of the tavern lists {number} dishes, "
        "A painted sign with a heron hangs over the tavern",
    },
    "museum": {
        "room": "gallery, entrance, reading room, courtyard",
        "food": "waffles, sponge cake, lentil salad, toast",
        "object": "cabinets, clocks, globes, frames, models",
        "person": "guide, curator, guard",
        "act": "explained the paintings, stamped our tickets, wound the clocks, opened the case",
        "fact": "The museum keeps {number} coins from a sunken ship, "
        "The oldest map in the museum shows {number} islands, "
        "A whale bone hangs in the museum above the stairs",
    },
    "theatre": {
        "room": "balcony, foyer, dressing room, box",
        "food": "almonds, pancakes, pretzels, plum pie",
        "object": "seats, scenery, lanterns, organ, trapdoor",
        "person": "usher, actor, pianist",
        "act": "sang the duet, played the overture, read the verses, led us to our row",
        "fact": "The theatre shows a play about {number} sisters, "
        "There are {number} rows and one trapdoor in the theatre, "
        "The curtain of the theatre shows {number} mermaids",
    },
    "bathhouse": {
        "room": "steam room, washroom, pool, passage",
        "food": "broth, melons, rice cakes, pears",
        "object": "taps, tubs, basins, lockers, combs",
        "person": "attendant, masseur, swimmer",
        "act": "handed us towels, heated the water, folded the robes, filled the tubs",
        "fact": "The bathhouse takes its water from {number} springs, "
        "The pool of the bathhouse is {number} feet deep, "
        "Bathers leave their boots outside the bathhouse",
    },
    "pottery": {
        "room": "studio, showroom, drying room, loft",
        "food": "gingerbread, noodles, flatbread, apples",
        "object": "bowls, jugs, kiln, wheel, tiles",
        "person": "potter, painter, teacher",
        "act": "mixed the clay, glazed the bowls, turned the wheel, packed our jugs",
        "fact": "The pottery fires its kiln every {number} days, "
        "The clay for the pottery comes from the river, "
        "Lessons at the pottery last {number} hours",
    },
    "nursery": {
        "room": "greenhouse, pavilion, arbour, tool shed",
        "food": "strawberries, scones, plums, cherry jam",
        "object": "fountain, benches, flower pots, trellis gate, wheelbarrows",
        "person": "gardener, florist, beekeeper",
        "act": "watered the roses, trimmed the hedge, tied the bouquets, raked the gravel",
        "fact": "The nursery grows {number} sorts of tulips, "
        "The bees of the nursery live in {number} hives, "
        "Seeds from the nursery are sold in paper bags",
    },
    "coach": {
        "room": "compartment, waiting room, depot, upper deck",
        "food": "rolls, cold chicken, sausages, oranges",
        "object": "doors, windows, brakes, wheels, springs",
        "person": "driver, conductor, mechanic",
        "act": "loaded our trunks, called the stops, punched the tickets, changed the tyres",
        "fact": "The coach stops at {number} villages on the way, "
        "A seat on the coach is reserved with {number} stamps, "
        "The coach is painted green and carries {number} passengers",
    },
}

# Slot -> entries, for all venues.
SLOTS = {slot: entries.split(", ") for slot, entries in _SLOTS.items()}

# Venue -> slot -> entries.
VENUES = {
    venue: {slot: entries.split(", ") for slot, entries in slots.items()}
    for venue, slots in _VENUES.items()
}

# Noun slots with a category of adjectives of the same name.
NOUN_SLOTS = ("room", "food", "object")
