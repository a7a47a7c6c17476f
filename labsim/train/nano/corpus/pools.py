"""Word pools of the generated text: many plain words, so that no sentence has only a few ways to go on."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Entries separated by commas."""
    return tuple(dict.fromkeys(" ".join(entry.split()) for entry in text.split(",") if entry.strip()))


POOLS: dict[str, tuple[str, ...]] = {
    "person": words(
        """Ada, Ben, Clara, Daniel, Elena, Farid, Grace, Hugo, Ines, Jonas, Kemal, Lucia, Mateo, Nadia, Oskar, Priya,
        Quentin, Rosa, Samir, Tilda, Umar, Vera, Walter, Xenia, Yusuf, Zoe, Amara, Bruno, Carmen, Dmitri,
        Edith, Felix, Greta, Hassan, Irene, Jamal, Karin, Leo, Mina, Noah, Olga, Pablo, Rita, Stefan, Tara,
        Ulrich, Violet, Wanda, Yara, Zeno, Alma, Boris, Chiara, Dora, Emil, Fiona, Gustav, Helen, Ivan,
        Judith"""
    ),
    "surname": words(
        """Abbott, Baker, Castillo, Dahl, Eriksen, Fischer, Gomez, Hartley, Ivanov, Jansen, Keller, Lindqvist, Moreau,
        Novak, Okafor, Petrov, Quinn, Rossi, Sato, Thorne, Ueda, Vargas, Weaver, Young, Zimmer, Albers,
        Brandt, Costa, Duarte, Ellis, Farrow, Grant, Holm, Irving, Joshi, Kowalski, Lowell, Mercer, Nielsen,
        Osborne"""
    ),
    "city": words(
        """Lisbon, Oslo, Prague, Vienna, Dublin, Athens, Warsaw, Madrid, Helsinki, Budapest, Porto, Lyon, Hamburg,
        Turin, Ghent, Krakow, Bergen, Seville, Zurich, Bristol, Glasgow, Montreal, Boston, Denver, Seattle,
        Lima, Quito, Bogota, Nairobi, Accra, Dakar, Tunis, Cairo, Amman, Hanoi, Osaka, Kyoto, Busan, Manila,
        Perth, Auckland, Jaipur, Mumbai, Toronto, Chicago, Austin, Naples, Leipzig, Antwerp, Malmo"""
    ),
    "place": words(
        """a quiet valley, the old harbour, a small mountain village, the edge of the forest, a crowded market, an
        abandoned station, a lighthouse, the city library, a windy hilltop, a narrow street by the river, a
        school yard, a greenhouse, the northern coast, a desert camp, a tiny island, the attic of a
        farmhouse, a busy kitchen, the last train of the night, a snowy field, a museum basement, the
        botanical garden, a floating market, a repair shop, an orchard, a bakery on the corner, the town
        square, a deep cave, a hotel by the lake, a bridge under repair, the observatory"""
    ),
    "animal": words(
        """fox, otter, heron, badger, cat, tortoise, raven, goat, hedgehog, dolphin, owl, rabbit, horse, squirrel,
        frog, crab, wolf, donkey, sparrow, beaver, mouse, bear, seal, lizard, duck, moth, whale, deer,
        penguin, bee, camel, goose, pony, mole, snail, swan, toad, weasel, parrot, elephant"""
    ),
    "trait": words(
        """curious, patient, clumsy, brave, shy, stubborn, gentle, clever, lonely, cheerful, careful, sleepy, proud,
        restless, honest, quiet, hungry, thoughtful, anxious, generous, lazy, daring, kind, forgetful,
        polite, noisy, practical, dreamy, suspicious, determined"""
    ),
    "object": words(
        """lantern, compass, umbrella, violin, notebook, kettle, bicycle, telescope, key, map, blanket, hammer, mirror,
        clock, ladder, basket, letter, coin, rope, photograph, ring, boat, camera, chessboard, candle,
        scarf, suitcase, radio, bell, jar, spoon, book, needle, backpack, teapot, whistle, paintbrush, drum,
        button, wheel"""
    ),
    "material": words(
        """wood, glass, copper, clay, wool, paper, steel, leather, cotton, stone, silver, rubber, silk, brass, wax,
        cork, plastic, bamboo, iron, linen"""
    ),
    "colour": words(
        """red, blue, green, yellow, grey, white, black, orange, purple, brown, pink, turquoise, golden, dark blue,
        pale green, crimson, ivory, violet, silver, beige"""
    ),
    "food": words(
        """bread, lentil soup, apple pie, rice, noodles, goat cheese, tomatoes, mushrooms, pancakes, roast potatoes,
        porridge, salad, dumplings, plum jam, beans, carrots, onion tart, fish stew, yoghurt, omelette,
        chestnuts, pumpkin, walnuts, honey, pears, spinach, pickles, couscous, grilled peppers, chocolate
        cake"""
    ),
    "ingredient": words(
        """flour, butter, eggs, milk, sugar, salt, olive oil, garlic, onions, rice, tomatoes, lemon juice, parsley,
        cream, carrots, black pepper, chickpeas, basil, potatoes, cinnamon, yeast, honey, ginger, spinach,
        cheese, mushrooms, red lentils, vinegar, paprika, thyme, walnuts, oats, beans, coconut milk, leeks"""
    ),
    "dish": words(
        """a vegetable stew, a potato gratin, lentil soup, banana bread, a mushroom risotto, a lemon cake, fried rice,
        a bean salad, an onion tart, flatbread, a tomato sauce, pancakes, a fruit crumble, chickpea curry,
        oat biscuits, stuffed peppers, a carrot soup, an omelette, a rice pudding, a pasta bake"""
    ),
    "hobby": words(
        """gardening, chess, photography, cycling, knitting, climbing, baking, astronomy, painting, swimming,
        birdwatching, woodworking, running, playing the piano, hiking, pottery, sailing, juggling, writing
        poems, learning languages, fishing, dancing, collecting stamps, repairing radios, singing in a
        choir, fencing, archery, cooking"""
    ),
    "job": words(
        """teacher, nurse, carpenter, baker, pilot, farmer, librarian, engineer, gardener, electrician, journalist,
        cook, sailor, painter, plumber, translator, architect, dentist, mechanic, musician, postman,
        biologist, tailor, potter, firefighter, accountant, geologist, shepherd, watchmaker, bus driver"""
    ),
    "subject": words(
        """the water cycle, photosynthesis, gravity, the moon's phases, how bread rises, electric motors, vaccines,
        tides, compound interest, the printing press, earthquakes, rainbows, the seasons, binary numbers,
        supply and demand, recycling, sleep, volcanoes, maps, prime numbers, batteries, the heart,
        fermentation, sound, bridges, clouds, the alphabet, lenses, erosion, magnetism"""
    ),
    "adverb": words(
        """slowly, quickly, quietly, carefully, suddenly, happily, at last, without a word, with great care, once more,
        reluctantly, in a hurry, patiently, almost by accident, as usual, for the first time, gently,
        proudly, before dawn, after a long pause"""
    ),
    "weather": words(
        """rain, fog, sunshine, a thunderstorm, light snow, strong wind, drizzle, hail, clear skies, frost, heat,
        clouds, mist, a warm breeze, freezing rain"""
    ),
    "weekday": words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "month": words("January, February, March, April, May, June, July, August, September, October, November, December"),
    "feeling": words(
        """relieved, disappointed, surprised, grateful, nervous, delighted, confused, calm, jealous, hopeful, tired,
        ashamed, excited, bored, sad, amused, worried, content, angry, impressed"""
    ),
    "sound": words(
        """a bell, footsteps, a whistle, laughter, thunder, music, a crack, a splash, humming, a knock, birdsong,
        an engine"""
    ),
    "goal": words(
        """cross the river, find the missing letter, learn to swim, repair the roof, win the race, open the old box,
        see the sea, build a raft, bake the perfect loaf, reach the summit, write a song, count the stars,
        grow a tree, return the borrowed book, paint the door, catch the last ferry, make a friend, find the
        way home, hear the whole story, mend the fence, plant an orchard, send a message, climb the tower,
        save the harvest"""
    ),
    "obstacle": words(
        """the bridge was closed, a storm came up, nobody knew the way, the rope was too short, the door was locked,
        the map was wrong, it had grown dark, the others laughed, the river was too deep, the tools were
        missing, a stranger stood in the path, the candle went out, there was no time left, the wheel broke,
        the key did not fit, everyone gave different advice, the snow covered the tracks, the plan had a
        hole in it, the money was gone, the rain would not stop"""
    ),
    "company": words(
        """Northwind Foods, Alder Mills, Blue Harbour Shipping, Cedar Bank, Dunmore Textiles, Eastgate Motors, Fern
        Labs, Granite Works, Hillside Dairy, Ironbridge Tools, Juniper Press, Kestrel Air, Larkfield Paper,
        Moss Energy, Nordal Fisheries, Oakline Furniture, Pinewood Optics, Quarry Stone, Redbrook Brewery,
        Silverlake Glass, Tern Robotics, Upland Seeds, Vantage Rail, Westmoor Water, Yarrow Health, Zephyr
        Turbines"""
    ),
    "product": words(
        """water pump, desk lamp, garden chair, coffee grinder, router, air filter, tent, keyboard, heater, drill,
        scale, thermostat, bicycle light, blender, printer, sensor, valve, motor, freezer, projector, sewing
        machine, solar panel, headset, kettle, toolbox"""
    ),
    "department": words(
        """sales, support, research, finance, logistics, design, quality, purchasing, training, maintenance, legal,
        planning"""
    ),
    "project": words(
        """Aurora, Basalt, Comet, Delta, Ember, Falcon, Glacier, Horizon, Indigo, Juno, Krill, Lagoon, Meridian,
        Nimbus, Opal, Pebble, Quartz, Raven, Saffron, Tundra, Umbra, Vortex, Willow, Zenith"""
    ),
    "folder": words(
        "src, docs, tests, config, scripts, data, lib, notes, reports, images, tools, assets, logs, backup, examples"
    ),
    "stem": words(
        """main, utils, parser, config, report, server, client, index, models, cache, routes, schema, loader, worker,
        billing, users, orders, search, queue, metrics, export, import_data, session, mailer, invoice,
        summary, budget, inventory, calendar, events, readme, changelog, settings, login, backup, retry,
        logger, tasks, storage, tokens"""
    ),
    "identifier": words(
        """total, count, value, items, result, name, path, index, buffer, limit, offset, record, row, key, data, lines,
        user, order, price, rate, size, width, height, score, node, parent, start, end, step, delay,
        message, token, group, weight, factor, ratio, batch, cursor, window, margin"""
    ),
    "verb": words(
        """compute, load, merge, parse, filter, count, split, format, update, remove, collect, validate, sort, read,
        write, find, encode, decode, scale, join, flatten, group, trim, convert, round, check, build, fetch,
        reverse, sum"""
    ),
    "topic_word": words(
        """budget, schedule, training, delivery, safety, recruitment, website, parking, energy use, office move,
        insurance, packaging, customer survey, holiday rota, new printer, travel policy, canteen, archive,
        warranty, price list"""
    ),
    "adjective": words(
        """small, old, bright, heavy, strange, simple, broken, narrow, warm, empty, round, forgotten, tall, hidden,
        rough, soft, expensive, cheap, famous, ordinary, crooked, shiny, wet, hollow, faded, solid, huge,
        delicate, rusty, plain"""
    ),
}
