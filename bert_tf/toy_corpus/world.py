"""The small world that the text is about: places, people, and what there is to visit.

Nothing here has a mood. `KINDS` says for every kind of house what one finds there, under the
category of mood words that fits it; a noun that ends in "s" is a plural.
"""

_LISTS = {
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

_KINDS = {
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

# slot -> the entries, for every kind.
LISTS = {slot: entries.split(", ") for slot, entries in _LISTS.items()}

# kind -> what one finds there -> the entries.
KINDS = {
    kind: {slot: entries.split(", ") for slot, entries in table.items()}
    for kind, table in _KINDS.items()
}

# What a mood adjective can be said of, and the category of adjectives that fits it.
THINGS = ("room", "food", "object")
