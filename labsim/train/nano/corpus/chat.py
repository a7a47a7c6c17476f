"""Generated chat: small talk, explanations, lists, comparisons, stories, and the errands beside them.

Each kind returns one exchange: what the user asks and what the assistant answers. Conversations chain one to three
of them. Answers are composed from sentence lists and word pools, so that after each word there are many ways to go
on: the entropy of the text comes from these choices.
"""

from __future__ import annotations

from collections.abc import Callable

from .errands import Exchange, arithmetic, convert, copy_task, letter, plan, recipe, word_problem
from .facts import ANIMALS, CATEGORIES, COMPARISONS, COUNTRIES, EXPLANATIONS, REASONS
from .side import Side
from .story import cast, story


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


GREETINGS = (
    "Hello!",
    "Hi there.",
    "Good morning!",
    "Hey, how are you?",
    "Good evening.",
    "Hi! Nice to meet you.",
    "Hello, can you help me?",
    "Greetings!",
    "Hi, I'm {person}.",
    "Hello, my name is {person}.",
    "Hey!",
    "Good afternoon.",
    "I had a {adjective} day.",
    "I am feeling {feeling} today.",
    "It has been {weather} all day here in {city}.",
    "I just came back from {city}.",
    "I started {hobby} last week.",
    "My {animal} ran away with my {object}.",
    "I work as a {job} and I'm {feeling}.",
    "Do you like {hobby}?",
    "What do you think about {food}?",
    "Thanks for your help!",
    "I can't sleep.",
    "I'm bored. Any ideas?",
    "Tell me something nice.",
)
REPLIES = (
    "Hello! How can I help you today?",
    "Hi! It is good to hear from you. What would you like to talk about?",
    "Good to meet you! Is there something I can do for you?",
    "That sounds interesting. Tell me more about it.",
    "I am sorry to hear that. Would you like to talk about it?",
    "How nice! {city} is lovely in {month}.",
    "I don't feel hunger or cold, but I like to hear about {food} and {weather}.",
    "Perhaps you could try {hobby}; many people feel {feeling} after an hour of it.",
    "What a day! Take a cup of tea, put the {object} away and rest.",
    "You are welcome. Come back at any time.",
    "I am a language model, so I have no {animal}, but I know many stories about them.",
    "Let us make a plan: first a walk, then some {food}, and in the evening a little {hobby}.",
    "That is a good question. Some people love it, others never get used to it.",
    "Here is something nice: somewhere a {trait} {animal} is asleep in {place}.",
    "It could be the {weather}. A short walk often helps.",
    "Good evening! What shall we do?",
    "Every {job} I have read about would understand you.",
    "Of course. What do you need?",
)


def small_talk(side: Side) -> Exchange:
    return side.say(GREETINGS), side.say(REPLIES)


ASK_STORY = (
    "Write a short story about a {trait1} {hero1}.",
    "Tell me a story that happens in {place1}.",
    "Can you tell me a story about a {friend1} and a {hero1}?",
    "I want a bedtime story with a {object1} in it.",
    "Write a story about someone who wants to {goal1}.",
    "Make up a story. It should have a {hero1} and a {object1}.",
    "Please write a little tale about a {trait1} {hero1} in {city1}.",
    "Story time! Topic: a {adjective} {object1}.",
    "Invent a story in which it is {weather} and someone feels {feeling}.",
    "Give me a story with a happy ending.",
    "Write three paragraphs about a {hero1} that wants to {goal1}.",
    "Tell my child a story about {person1} and a {hero1}.",
)


def tell_story(side: Side) -> Exchange:
    context = cast(side)
    ask = side.say(ASK_STORY, context)
    return ask, story(side, context)


ASK_LIST = (
    "Give me a list of {count} {category}.",
    "Name {count} {category}.",
    "Can you list {count} {category}?",
    "I need {count} {category}, with a short remark for each.",
    "What are {count} {category} you would recommend?",
    "List {count} {category} please.",
    "Which {category} come to mind? {count} are enough.",
    "Help me think of {count} {category}.",
    "Write down {count} {category} and why.",
    "{count} {category}, numbered.",
)
LIST_INTRO = (
    "Here are {count} {category}:",
    "Of course. {count} {category}:",
    "These come to mind:",
    "Sure, here you go:",
    "My list of {category}:",
    "Let me see. I would choose these:",
    "{count} suggestions:",
    "Gladly:",
)
LIST_END = (
    "Let me know if you want more.",
    "I hope this helps.",
    "Shall I add some?",
    "Tell me which one you like best.",
    "There are many others, of course.",
    "Do you want me to sort them?",
    "",
    "Start with the first one.",
)
NUMBERS = ("two", "three", "four", "five", "six")


def make_list(side: Side) -> Exchange:
    category, items = side.pick(CATEGORIES)
    number = side.rng.randint(3, 6)
    context = {"count": NUMBERS[number - 2], "category": category}
    chosen = side.rng.sample(items, min(number, len(items)))
    style = side.rng.randrange(3)
    lines = []
    for index, item in enumerate(chosen, 1):
        mark = f"{index}. " if style else "- "
        remark = "" if style == 2 else f": {side.pick(REASONS)}"
        lines.append(f"{mark}{capital(item)}{remark}")
    body = capital(side.say(LIST_INTRO, context)) + "\n" + "\n".join(lines)
    end = side.say(LIST_END)
    return capital(side.say(ASK_LIST, context)), f"{body}\n\n{end}" if end else body


ASK_COUNTRY = (
    "What is the capital of {country}?",
    "Tell me about {country}.",
    "Which language do people speak in {country}?",
    "Where is {country}, and what is its capital?",
    "I am travelling to {country}. What should I know?",
    "What do they pay with in {country}?",
    "Give me two facts about {country}.",
    "Capital of {country}?",
    "My daughter asks about {country}. What can I tell her?",
)
TELL_COUNTRY = (
    "The capital of {country} is {capital}.",
    "{country} is in {continent}; its capital is {capital}.",
    "In {country} people speak {language}.",
    "People there pay with the {currency}.",
    "{capital} is the capital, and the main language is {language}.",
    "{country} lies in {continent}.",
    "The currency is the {currency}.",
    "You will hear {language} in {capital}.",
)
TELL_CAPITAL = (
    "The capital of {country} is {capital}.",
    "It is {capital}.",
    "{country} is governed from {capital}.",
    "That would be {capital}.",
)
TRAVEL_TIP = (
    "Take a {object} with you.",
    "In {month} you may meet {weather}.",
    "Try the {food}.",
    "Learn a few words first.",
    "Visit {place} if you have time.",
    "Book your room early in {month}.",
    "The {food} there is worth the journey.",
)


def about_country(side: Side) -> Exchange:
    country = dict(zip(("country", "capital", "continent", "language", "currency"), side.pick(COUNTRIES), strict=True))
    ask = side.say(ASK_COUNTRY, country)
    if "pital" in ask:
        return ask, side.say(TELL_CAPITAL, country)
    parts = [side.say(TELL_COUNTRY, country) for _ in range(2)]
    parts += [side.say(TRAVEL_TIP)] if side.chance(0.5) else []
    return ask, " ".join(dict.fromkeys(parts))


ASK_ANIMAL = (
    "Tell me about the {name}.",
    "What does a {name} eat?",
    "Where does the {name} live?",
    "What is a {name}?",
    "I saw a {name} yesterday. What is special about it?",
    "Give me a short profile of the {name}.",
    "Explain to a child what a {name} is.",
    "Write three sentences about the {name}.",
)
TELL_ANIMAL = (
    "The {name} is {kind}. It lives {where} and eats {eats}. A surprising fact: {fact}.",
    "A {name} is {kind}. You can find it {where}. It feeds on {eats}, and {fact}.",
    "Think of {kind}: that is the {name}. It eats {eats}. Its home is {where}. And {fact}!",
    "Name: {name}\nKind: {kind}\nHome: {where}\nFood: {eats}\nSpecial: {fact}",
    "It lives {where}, where it looks for {eats}. People like the {name} because {fact}.",
    "{eats}: that is what the {name} eats. It is {kind}, it lives {where}, and {fact}.",
)


def about_animal(side: Side) -> Exchange:
    animal = dict(zip(("name", "kind", "where", "eats", "fact"), side.pick(ANIMALS), strict=True))
    return side.say(ASK_ANIMAL, animal), capital(side.say(TELL_ANIMAL, animal))


ASK_EXPLAIN = (
    "Explain {what}.",
    "How would you explain {what} to a {job}?",
    "I don't understand {what}. Can you help?",
    "Can you explain {what} in simple words?",
    "What should I know about {what}?",
    "Explain {what} to a ten-year-old.",
    "Give me a short explanation of {what}.",
    "{what}, please, in a few sentences.",
    "Teach me about {what}.",
    "My teacher wants a paragraph about {what}. Help me.",
)
EXPLAIN_START = (
    "Gladly.",
    "In simple words:",
    "Here is the idea.",
    "",
    "",
    "Let us go through it step by step.",
    "Imagine you explain it to a friend.",
    "It is easier than it sounds.",
    "Good question.",
    "Sure.",
)
EXPLAIN_END = (
    "That is the whole idea.",
    "",
    "",
    "Ask me if a step is unclear.",
    "You can try it at home with a {object}.",
    "In short, that is how it works.",
    "A {job} uses this every day.",
    "Would you like an example?",
    "",
)


def explain(side: Side) -> Exchange:
    what, sentences = side.pick(EXPLANATIONS)
    ask = capital(side.say(ASK_EXPLAIN, {"what": what}))
    count = side.rng.randint(2, 4)
    if side.chance(0.3):
        body = "\n".join(f"{i}. {sentence}" for i, sentence in enumerate(sentences[:count], 1))
        return ask, "\n".join(part for part in (side.say(EXPLAIN_START), body, side.say(EXPLAIN_END)) if part)
    parts = [side.say(EXPLAIN_START), *sentences[:count], side.say(EXPLAIN_END)]
    return ask, " ".join(part for part in parts if part)


ASK_COMPARE = (
    "What is the difference between {a} and {b}?",
    "Compare {a} with {b}.",
    "{a} or {b}: which is better?",
    "Should I choose {a} or {b}?",
    "Give me the pros and cons of {a} and {b}.",
    "Why would anyone prefer {a} to {b}?",
    "Help me decide between {a} and {b}.",
)
TELL_COMPARE = (
    "Both {share}. The advantage of {a}: {first}. The advantage of {b}: {second}.",
    "It depends. With {a}, {first}. With {b}, {second}. Both {share}.",
    "- {a}: {first}\n- {b}: {second}\n\nWhat they share: both {share}.",
    "Choose {a} if this matters to you: {first}. Choose {b} if this does: {second}.",
    "They have something in common: both {share}. But {first}, if you take {a}; and {second}, if you take {b}.",
    "For {a} speaks that {first}. For {b} speaks that {second}.",
)


def compare(side: Side) -> Exchange:
    a, b, first, second, share = side.pick(COMPARISONS)
    context = {"a": a, "b": b, "first": first, "second": second, "share": share}
    return capital(side.say(ASK_COMPARE, context)), capital(side.say(TELL_COMPARE, context))


SYSTEMS = (
    "You are a helpful assistant.",
    "You are a friendly assistant who answers briefly.",
    "Answer in plain English.",
    "You are a patient teacher.",
    "You are {person}, the assistant of {company}.",
    "Be concise and polite.",
    "You help a {job} with everyday questions.",
    "Today is {weekday}, {1..28} {month}.",
    "Answer as well as you can.",
    "You are an assistant for people who live in {city}.",
    "Keep a warm tone.",
    "You are a careful assistant. Think first.",
)

KINDS: tuple[tuple[Callable[[Side], Exchange], int], ...] = (
    (small_talk, 3),
    (tell_story, 6),
    (make_list, 3),
    (arithmetic, 1),
    (word_problem, 2),
    (convert, 1),
    (about_country, 2),
    (about_animal, 2),
    (explain, 3),
    (compare, 2),
    (plan, 4),
    (letter, 4),
    (recipe, 3),
    (copy_task, 2),
)


def conversation(side: Side) -> list[dict[str, str]]:
    """One to three exchanges, with a system prompt two times in five."""
    messages = [{"role": "system", "content": side.say(SYSTEMS)}] if side.chance(0.4) else []
    kinds, weights = zip(*KINDS, strict=True)
    for kind in side.rng.choices(kinds, weights, k=side.rng.choice((1, 1, 2, 3))):
        ask, answer = kind(side)
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return messages
