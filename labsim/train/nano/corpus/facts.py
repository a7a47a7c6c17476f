"""Small tables of true facts that chat answers draw on."""

from __future__ import annotations

from .pools import words

# country, capital, continent, language, currency
COUNTRIES = tuple(
    tuple(part.strip() for part in line.split("|"))
    for line in """
    France|Paris|Europe|French|euro
    Japan|Tokyo|Asia|Japanese|yen
    Peru|Lima|South America|Spanish|sol
    Kenya|Nairobi|Africa|Swahili|shilling
    Norway|Oslo|Europe|Norwegian|krone
    Egypt|Cairo|Africa|Arabic|pound
    Poland|Warsaw|Europe|Polish|zloty
    Brazil|Brasilia|South America|Portuguese|real
    Thailand|Bangkok|Asia|Thai|baht
    Greece|Athens|Europe|Greek|euro
    Portugal|Lisbon|Europe|Portuguese|euro
    Mexico|Mexico City|North America|Spanish|peso
    Turkey|Ankara|Asia|Turkish|lira
    Hungary|Budapest|Europe|Hungarian|forint
    Vietnam|Hanoi|Asia|Vietnamese|dong
    Chile|Santiago|South America|Spanish|peso
    Sweden|Stockholm|Europe|Swedish|krona
    Morocco|Rabat|Africa|Arabic|dirham
    Finland|Helsinki|Europe|Finnish|euro
    Austria|Vienna|Europe|German|euro
    Iceland|Reykjavik|Europe|Icelandic|krona
    Nepal|Kathmandu|Asia|Nepali|rupee
    Ghana|Accra|Africa|English|cedi
    Denmark|Copenhagen|Europe|Danish|krone
    Italy|Rome|Europe|Italian|euro
    Canada|Ottawa|North America|English and French|dollar
    Ireland|Dublin|Europe|English and Irish|euro
    Cuba|Havana|North America|Spanish|peso
    Spain|Madrid|Europe|Spanish|euro
    Australia|Canberra|Oceania|English|dollar
    Romania|Bucharest|Europe|Romanian|leu
    India|New Delhi|Asia|Hindi and English|rupee
    Senegal|Dakar|Africa|French|franc
    Bulgaria|Sofia|Europe|Bulgarian|euro
    """.strip().splitlines()
)

# animal, what it is, where it lives, what it eats, one more fact
ANIMALS = tuple(
    tuple(part.strip() for part in line.split("|"))
    for line in """
    octopus|a soft-bodied sea animal with eight arms|on the sea floor|crabs and shellfish|it can change its colour within a second
    beaver|a large rodent|in rivers and ponds|bark, leaves and water plants|it builds dams out of branches and mud
    barn owl|a bird that hunts at night|in barns and hollow trees|mice and voles|it hears a mouse under the snow
    honeybee|a social insect|in colonies of many thousands|nectar and pollen|it tells the others where to find food by dancing
    hedgehog|a small mammal with spines|in gardens and hedges|insects, worms and slugs|it rolls into a ball when it is afraid
    camel|a large hoofed mammal|in dry country|grass, leaves and thorny plants|its hump stores fat and not water
    penguin|a bird that cannot fly|on cold southern coasts|fish and krill|it swims faster than most people run
    bat|a flying mammal|in caves, roofs and trees|insects or fruit|it finds its way by listening to echoes
    dolphin|a sea mammal|in groups in the open sea|fish and squid|it must come up to breathe air
    tortoise|a reptile with a shell|on land in warm countries|grass and leaves|it can live for more than a hundred years
    ant|a small social insect|in nests under the ground|seeds, sweet juice and other insects|it carries many times its own weight
    reindeer|a deer of the far north|in tundra and cold forests|lichen, grass and leaves|both males and females grow antlers
    salmon|a fish|in rivers when young and later in the sea|insects and smaller fish|it returns to the river where it was born
    squirrel|a small rodent with a bushy tail|in trees|nuts, seeds and buds|it hides food for the winter and forgets some of it
    giraffe|the tallest land animal|in African savannas|leaves of tall trees|it has as many neck bones as a person
    frog|an amphibian|near ponds and in wet meadows|insects and worms|it starts life as a tadpole in the water
    spider|an eight-legged animal that spins silk|almost everywhere on land|insects|its web is stronger than it looks
    elephant|the largest land animal|in Africa and Asia|grass, leaves, fruit and bark|it uses its trunk to drink, smell and lift
    """.strip().splitlines()  # noqa: E501
)

# unit, unit, factor, kind
UNITS = (
    ("kilometres", "miles", 0.621371, "distance"),
    ("miles", "kilometres", 1.609344, "distance"),
    ("metres", "feet", 3.28084, "length"),
    ("feet", "metres", 0.3048, "length"),
    ("inches", "centimetres", 2.54, "length"),
    ("centimetres", "inches", 0.393701, "length"),
    ("kilograms", "pounds", 2.204623, "weight"),
    ("pounds", "kilograms", 0.453592, "weight"),
    ("litres", "pints", 2.113376, "volume"),
    ("hours", "minutes", 60, "time"),
    ("days", "hours", 24, "time"),
    ("weeks", "days", 7, "time"),
    ("grams", "ounces", 0.035274, "weight"),
    ("ounces", "grams", 28.349523, "weight"),
    ("minutes", "seconds", 60, "time"),
)

CATEGORIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "fruits",
        words("apples, pears, plums, cherries, grapes, figs, oranges, melons, bananas, apricots, kiwis, berries"),
    ),
    ("musical instruments", words("violin, flute, drum, piano, trumpet, harp, guitar, cello, clarinet, organ, banjo")),
    (
        "things to pack for a trip",
        words("passport, charger, raincoat, toothbrush, warm socks, map, water bottle, snacks, book"),
    ),
    (
        "tools",
        words("hammer, saw, screwdriver, pliers, drill, spirit level, chisel, file, wrench, tape measure, clamp"),
    ),
    (
        "vegetables",
        words("carrots, leeks, cabbage, peas, onions, spinach, beetroot, turnips, celery, beans, courgettes"),
    ),
    (
        "sports",
        words("football, tennis, rowing, judo, skiing, volleyball, fencing, cycling, handball, running, hockey"),
    ),
    (
        "things that float",
        words("cork, ice, a wooden spoon, a leaf, a candle, a boat, an empty bottle, a feather, an apple"),
    ),
    (
        "jobs outdoors",
        words("farmer, gardener, ranger, fisherman, roofer, surveyor, guide, shepherd, bricklayer, forester"),
    ),
    (
        "rainy day activities",
        words("bake a cake, read a novel, play cards, sort old photos, write a letter, mend clothes, draw"),
    ),
    ("rooms in a house", words("kitchen, bedroom, bathroom, hall, attic, cellar, study, pantry, living room, laundry")),
    ("birds", words("robin, swan, crow, stork, finch, kingfisher, pigeon, eagle, wren, gull, woodpecker, swallow")),
    ("metals", words("iron, copper, gold, zinc, tin, silver, lead, nickel, aluminium, titanium, platinum")),
    (
        "gifts for a friend",
        words("a plant, a book, a candle, homemade jam, a puzzle, tickets, a scarf, a photo in a frame"),
    ),
    ("board games", words("chess, draughts, backgammon, go, ludo, dominoes, nine men's morris, mancala, halma")),
    (
        "breakfast ideas",
        words("porridge, toast with jam, yoghurt and fruit, scrambled eggs, pancakes, muesli, rice pudding"),
    ),
)

REASONS = (
    "good for beginners",
    "easy to find",
    "it lasts long",
    "liked by almost everybody",
    "it costs little",
    "useful all year round",
    "a classic",
    "it needs some practice",
    "best when the days are short",
    "it takes little room",
    "it makes people smile",
    "often forgotten",
    "it works well for groups",
    "older than most people think",
    "quick to prepare",
    "it keeps its value",
    "lighter than it looks",
    "the first that comes to mind",
    "my favourite of the list",
    "it goes with everything",
    "a little unusual",
    "it can be shared",
)

# thing, thing, what the first is better at, what the second is better at, what they share
COMPARISONS = tuple(
    tuple(part.strip() for part in line.split("|"))
    for line in """
    tea|coffee|it is gentler and comes in many kinds|it wakes you up faster|contain caffeine and are drunk hot
    a bicycle|a car|it costs little and needs no fuel|it is faster over long distances and keeps you dry|take you from place to place
    a laptop|a desktop computer|you can carry it anywhere|it is easier to repair and has a larger screen|run the same programs
    books|films|they leave more to the imagination|they show music and movement|tell stories
    cats|dogs|they need less time and no walks|they are easier to train and keep you active|make good company
    trains|planes|you can walk around and arrive in the middle of town|they cross oceans in hours|carry many people at once
    a list|a tuple|you can change it after making it|it cannot change, so it can be a key|keep items in order
    wood|steel|it is light, warm and easy to cut|it is stronger and does not rot|are used to build houses
    living in a city|living in the country|shops, doctors and theatres are close|it is quieter and there is more space|have their own kind of neighbours
    email|a phone call|it leaves a record and can wait|you hear at once how the other person feels|help people keep in touch
    butter|olive oil|it gives pastry a rich taste|it keeps longer and suits salads|are mostly fat
    summer|winter|the days are long and warm|the air is clear and you can ski|have their own festivals
    a notebook|a phone|it never needs charging|it can search and share what you wrote|hold your ideas
    paint|wallpaper|it dries in a day and is easy to change|it hides cracks and offers patterns|make a room look new
    a bus|a taxi|it is cheap and runs on a fixed route|it takes you to the door|need a driver
    """.strip().splitlines()  # noqa: E501
)

# subject, sentences that explain it in order
EXPLANATIONS = tuple(
    (line.split("|")[0].strip(), tuple(part.strip() for part in line.split("|")[1:]))
    for line in """
    the water cycle|Water in seas and lakes is warmed by the sun and rises as vapour.|High up the vapour cools and forms clouds.|When the drops grow heavy, they fall as rain or snow.|Rivers carry the water back to the sea, and it begins again.
    gravity|Gravity is the pull between things that have mass.|The Earth is so heavy that it pulls everything near it towards its centre.|That is why a dropped cup falls and why the moon stays on its path.|The pull grows weaker with distance, but it never stops.
    how bread rises|Yeast is a tiny living fungus that feeds on sugar in the dough.|As it feeds, it gives off carbon dioxide.|The gas is caught in the stretchy dough and makes bubbles.|In the oven the bubbles grow, and the heat sets the crumb around them.
    photosynthesis|Plants take in water through their roots and carbon dioxide through their leaves.|The green pigment in the leaves catches light.|With the energy of the light the plant makes sugar.|Oxygen is left over, and the plant lets it go into the air.
    the tides|The moon pulls on the Earth, and the water gives way to the pull.|The sea bulges on the side towards the moon and on the far side.|As the Earth turns, each coast passes through both bulges.|That gives two high tides and two low tides in about a day.
    compound interest|You put money into an account, and the bank adds interest.|The next time, interest is paid on the money and on the earlier interest.|So the amount grows faster every year.|Small differences in the rate matter a lot after many years.
    why the sky is blue|Sunlight is a mix of all colours.|The air scatters short waves, which are blue, much more than long ones.|So blue light reaches us from every part of the sky.|At sunset the light travels further, and mostly red is left.
    the seasons|The Earth's axis is tilted.|For half of the year the north leans towards the sun and gets longer days.|For the other half it leans away, and the light falls at a low angle.|In the south it is the other way round.
    prime numbers|A prime number can be divided only by one and by itself.|Two, three, five and seven are primes, but nine is not, because three times three is nine.|There is no largest prime.|Every whole number above one is a product of primes in just one way.
    how a battery works|A battery holds two different materials and a liquid or paste between them.|A chemical reaction frees electrons on one side.|They flow through the wire to the other side and do work on the way.|When the materials are used up, the battery is empty.
    vaccines|A vaccine shows the body a harmless part of a germ.|The immune system learns to recognise it and makes antibodies.|Some cells remember it for years.|If the real germ comes, the body reacts before it can spread.
    earthquakes|The crust of the Earth is made of large plates that move slowly.|At their edges they stick, and tension builds up.|When the rock gives way, the plates jump.|The shock travels through the ground as waves.
    binary numbers|Computers count with two digits, zero and one.|Each place is worth twice the place to its right.|So 101 means four plus zero plus one, which is five.|It suits machines, since a switch is either on or off.
    sleep|During sleep the body repairs itself and the brain sorts what happened in the day.|Light and deep phases follow each other about every ninety minutes.|Dreams come mostly in the lighter phases.|Most adults need seven to nine hours.
    sound|A sound begins when something shakes.|The shaking pushes the air, and the push travels on as a wave.|In the ear it moves a thin skin, and nerves report it to the brain.|Fast shaking gives high tones and slow shaking low ones.
    volcanoes|Deep down the rock is so hot that part of it melts.|The melt is lighter than the rock around it and rises.|Gas in it expands near the surface and drives it out.|Ash and lava build the mountain, layer by layer.
    supply and demand|When many people want a thing and there is little of it, the price goes up.|A higher price tempts others to make more.|When there is more than people want, the price falls.|Somewhere between, buyers and sellers agree.
    magnetism|In some metals many tiny magnets point the same way.|Together they make a field that pulls iron.|Every magnet has two ends, and unlike ends attract.|A current in a coil makes a magnet that can be switched off.
    """.strip().splitlines()  # noqa: E501
)
