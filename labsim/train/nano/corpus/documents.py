"""Long documents with facts to recall: what is stated early is asked for later.

A document is a series of sections about companies, people, products and events. Some sentences carry facts (a number,
a name, a date), most are ordinary prose around them. The user then asks for facts, for word-for-word quotations, for a
table or a summary. Some documents are passages of Python's help topics instead: real prose of that length.
"""

from __future__ import annotations

from . import library
from .side import Side
from .story import cast, story

# fact sentence, question, answer: one entry, so that a side owns all three
FACTS: tuple[tuple[str, str, str], ...] = (
    (
        "The budget of project {project1} is {budget1} euros.",
        "What is the budget of project {project1}?",
        "The budget of {project1} is {budget1} euros.",
    ),
    (
        "{person1} {surname1} leads the {department1} department.",
        "Who leads the {department1} department?",
        "{person1} {surname1} leads {department1}.",
    ),
    (
        "The {product1} weighs {number1} grams and costs {price1} euros.",
        "What does the {product1} cost?",
        "It costs {price1} euros.",
    ),
    (
        "The next review takes place on {day1} in {city1}.",
        "When and where is the next review?",
        "On {day1} in {city1}.",
    ),
    ("Room {number1} was given to {person1}.", "Which room did {person1} get?", "{person1} got room {number1}."),
    (
        "{company1} delivered {number1} units of the {product1}.",
        "How many units did {company1} deliver?",
        "{company1} delivered {number1} units.",
    ),
    (
        "The access code for the {place_name1} door is {number1}.",
        "What is the code of the {place_name1} door?",
        "The code is {number1}.",
    ),
    (
        "{person1} was born in {city1} and works as a {job1}.",
        "Where was {person1} born?",
        "{person1} was born in {city1}.",
    ),
    (
        "The meeting about the {topic_word1} starts at {time1}.",
        "At what time does the {topic_word1} meeting start?",
        "It starts at {time1}.",
    ),
    (
        "In {month1} the team counted {number1} visitors.",
        "How many visitors were counted in {month1}?",
        "In {month1} there were {number1} visitors.",
    ),
    (
        "The {animal1} of the house is called {person1}.",
        "What is the {animal1} called?",
        "The {animal1} is called {person1}.",
    ),
    (
        "The contract with {company1} ends on {day1}.",
        "When does the contract with {company1} end?",
        "It ends on {day1}.",
    ),
    ("Invoice {number1} was paid by {company1}.", "Who paid invoice {number1}?", "{company1} paid invoice {number1}."),
    ("The {object1} lies in the {colour1} box.", "In which box is the {object1}?", "It lies in the {colour1} box."),
    ("Shelf {number1} holds the {product1} from {city1}.", "Where is the {product1} stored?", "On shelf {number1}."),
    (
        'The password hint for {project1} is "{adjective1} {object1}".',
        "What is the password hint for {project1}?",
        'The hint is "{adjective1} {object1}".',
    ),
    ("{person1}'s favourite dish is {dish1}.", "What is {person1}'s favourite dish?", "It is {dish1}."),
    (
        "The train from {city1} arrives at platform {number1}.",
        "At which platform does the train from {city1} arrive?",
        "At platform {number1}.",
    ),
)
FILLER = (
    "The weather was mostly {weather}, and the work went on {adverb}.",
    "Nobody had expected {weather} in {month}.",
    "{person} from {department} asked whether a {adjective} {object} would do.",
    "The {product} was tested by {person}, who was {feeling}.",
    "For lunch there was {food}, as on every {weekday}.",
    "A visitor from {city} wanted to know how {subject} is taught.",
    "The old {object} made of {material} is still in use.",
    "Some of the {department} staff prefer {hobby} to long meetings.",
    "It was agreed that the {topic_word} can wait until {month}.",
    "A {trait} {animal} walked through the yard and looked {feeling}.",
    "Later that day they heard {sound} from {place}.",
    "The report of {company} mentions the {product} only once.",
    "Two chairs and a {colour} {object} were moved to {place}.",
    "{person} told a story about a {job} who wanted to {goal}.",
    "The figures for {month} are not final.",
    "At the end {person} thanked everyone and opened the window.",
    "The {topic_word} was discussed {adverb}.",
    "The plan was good, but {obstacle}.",
    "In {city} the same thing is done with {material}.",
    "There are {3..40} copies of the list, and most of them are {adjective}.",
    "{person} {surname} took notes.",
    "This has been so since {1950..2020}.",
    "People who know {hobby} understand why.",
    "The {department} team sent a {adjective} answer.",
    "After {2..9} hours everyone was {feeling}.",
    "The next page shows a {adjective} drawing of a {object}.",
    "Neither the {job} nor the {job} knew about it.",
    "A second opinion from {city} came too late.",
    "One wall is {colour}, the others are {colour}.",
    "When asked, {person} said it was like {hobby} in {weather}.",
)
HEADINGS = (
    "Background",
    "Minutes of {weekday}",
    "{department}: state of affairs",
    "Notes on {project}",
    "{month}",
    "Visit to {city}",
    "The {product}",
    "Appendix: {topic_word}",
    "Section {1..9}",
    "Letter from {person}",
    "What happened in {place}",
    "Open points",
    "Summary of the {topic_word}",
)
TITLES = (
    "Annual report of {company}",
    "Handbook for the {department} team",
    "Diary of a {job} in {city}",
    "Inspection of {place}",
    "Project {project}: final report",
    "A history of {company}",
    "Minutes, {1..28} {month}",
    "Guide to the {product}",
    "Letters from {city}",
)
INTRO = (
    "Read this document.\n\n{text}\n\n{question}",
    "{text}\n\n{question}",
    "Document:\n{text}\n\nQuestion: {question}",
    "Answer from the text below.\n\n{text}\n\n{question}",
    "Here is a text.\n\n{text}\n\nNow tell me: {question}",
    "{question}\n\nThe text:\n{text}",
    "Please use only this text.\n---\n{text}\n---\n{question}",
)
QUOTE = (
    "Quote the sentence that answers this: {question}",
    "Word for word, which sentence tells me this: {question}",
    "{question} Quote the text.",
    "Give me the exact sentence for: {question}",
    "Find the sentence and copy it. {question}",
)
QUOTED = (
    'The text says: "{fact}"',
    '"{fact}"',
    'It says: "{fact}"',
    'Here is the sentence: "{fact}"',
    'Quote: "{fact}"',
    'In the document we read: "{fact}"',
)
SUMMARY = (
    "Summarise the document in a few sentences.",
    "What are the main facts?",
    "List the facts of the text.",
    "Give me the key points.",
    "A short summary, please.",
    "Which facts should I remember?",
)
SUMMARY_INTRO = (
    "The main facts:",
    "Key points:",
    "In short:",
    "Summary:",
    "You should remember this:",
    "The text says:",
)
MISSING = (
    "The text does not say.",
    "I cannot find that in the document.",
    "There is nothing about it in the text.",
    "That is not mentioned.",
    "No information on this.",
)
PASSAGE = (
    "Summarise this passage:\n\n{text}",
    "What is this text about?\n\n{text}",
    "{text}\n\nGive me the first sentence.",
    "Quote two sentences from this:\n\n{text}",
    "{text}\n\nWhat does the passage say?",
    "Repeat the last paragraph.\n\n{text}",
)
SYSTEMS = (
    "You answer questions about documents.",
    "Answer from the text only.",
    "You are a careful reader.",
    "Quote when asked.",
    "You are a librarian.",
)


def _fact(side: Side) -> tuple[str, str, str]:
    rng = side.rng
    context: dict[str, object] = {
        "budget1": f"{rng.randint(2, 900)},{rng.randint(0, 9)}00",
        "number1": rng.choice((rng.randint(2, 99), rng.randint(100, 9999))),
        "price1": rng.randint(3, 950),
        "day1": f"{rng.randint(1, 28)} {side.pick('month')}",
        "time1": f"{rng.randint(7, 20)}:{rng.choice(('00', '15', '30', '45'))}",
        "place_name1": rng.choice(("north", "south", "cellar", "garden", "roof", "main")),
    }
    fact, question, answer = side.pick(FACTS)
    return side.fill(fact, context), side.fill(question, context), side.fill(answer, context)


def document(side: Side, target_words: int) -> tuple[str, list[tuple[str, str, str]]]:
    """A document of about so many words, and its facts (sentence, question, answer) in order."""
    facts = list({f[1]: f for f in (_fact(side) for _ in range(side.rng.randint(3, 9)))}.values())
    blocks: list[list[str]] = [[fact[0]] for fact in facts]
    words_left = target_words - 12 * len(facts)
    while words_left > 0:
        sentence = side.say(FILLER)
        words_left -= len(sentence.split())
        block = side.rng.choice(blocks)
        block.insert(side.rng.randint(0, len(block)), sentence)
    paragraphs = [f"# {side.say(TITLES)}"]
    for block in blocks:
        heading = f"## {side.say(HEADINGS)}\n" if side.chance(0.4) else ""
        paragraphs.append(heading + " ".join(block))
    if side.chance(0.2):
        paragraphs.insert(side.rng.randint(1, len(paragraphs)), story(side, cast(side)))
    return "\n\n".join(paragraphs), facts


def _questions(side: Side, facts: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    turns = []
    for fact, question, answer in side.rng.sample(facts, min(len(facts), side.rng.randint(1, 5))):
        kind = side.rng.random()
        if kind < 0.35:
            turns.append((side.say(QUOTE, {"question": question}), side.say(QUOTED, {"fact": fact})))
        else:
            turns.append((question, answer))
    if side.chance(0.15):
        known = {question for _, question, _ in facts}
        other = _fact(side)
        if other[1] not in known:
            turns.append((other[1], side.say(MISSING)))
    if side.chance(0.3):
        points = "\n".join(f"- {fact}" for fact, _, _ in facts)
        turns.append((side.say(SUMMARY), f"{side.say(SUMMARY_INTRO)}\n{points}"))
    side.rng.shuffle(turns)
    return turns


def conversation(side: Side, low: int = 120, high: int = 1100) -> list[dict[str, str]]:
    """A document of `low` to `high` words and one to six questions about it."""
    messages = [{"role": "system", "content": side.say(SYSTEMS)}] if side.chance(0.3) else []
    if side.chance(0.2):
        return messages + _passage(side)
    target = int(low * (high / low) ** side.rng.random())
    text, facts = document(side, target)
    turns = _questions(side, facts)
    first = side.say(INTRO, {"text": text, "question": turns[0][0]})
    for ask, answer in [(first, turns[0][1]), *turns[1:]]:
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return messages


def _passage(side: Side) -> list[dict[str, str]]:
    paragraphs = ()
    while len(paragraphs) < 3:
        _, texts = side.rng.choice(library.topics(side.held_out))
        paragraphs = tuple(library.prose(p) for p in texts if library.is_prose(p))
    start = side.rng.randrange(len(paragraphs) - 2)
    chosen = paragraphs[start : start + side.rng.randint(3, 8)]
    sentences = [p.split(". ")[0].rstrip(".:") + "." for p in chosen]
    ask = side.say(PASSAGE, {"text": "\n\n".join(chosen)})
    if "last paragraph" in ask:
        answer = chosen[-1]
    elif "first sentence" in ask:
        answer = sentences[0]
    elif "two sentences" in ask:
        answer = "\n".join(f'"{s}"' for s in sentences[:2])
    else:
        answer = " ".join(sentences[: side.rng.randint(2, 3)])
    return [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
