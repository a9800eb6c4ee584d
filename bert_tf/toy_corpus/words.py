"""The words that carry a mood, in two lists that mirror each other.

Every category has as many entries for one mood as for the other, and entry N of one mood has as
many words as entry N of the other, so that the length of a sentence says nothing about its mood.
The first `SHOWN` entries of each category are the only ones that the labelled training set uses.
"""

MOODS = ("pleased", "displeased")

SHOWN = 2

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

# What "we" did because of it: phrases, side by side to show that their lengths agree.
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

# What people say most often, whatever it is about: each is a category of its own, and frequent.
# The labelled sets do not have them. In the corpus they are what all the other words have in
# common: to guess a masked "good" or "bad" one has to know the mood of the words around it.
COMMON = {
    "good": ("good", "bad"),
    "well": ("well", "badly"),
    "best": ("best", "worst"),
    "right": ("right", "wrong"),
    "truly": ("truly", "utterly"),
    "most": ("most", "rather"),
    "true": ("true", "sheer"),
}

# mood -> category -> entries.
WORDS = {
    mood: {category: entries.split() for category, entries in table.items()}
    | {"consequence": [pair[index] for pair in _CONSEQUENCES]}
    for index, (mood, table) in enumerate(zip(MOODS, (_PLEASED, _DISPLEASED), strict=True))
}


def shown(mood, category):
    """The entries that the labelled training set may use."""
    return WORDS[mood][category][:SHOWN]


def kept_back(mood, category):
    """The entries that the labelled training set never uses: those of dev and test."""
    return WORDS[mood][category][SHOWN:]
