"""Stories from a sentence grammar: who, where, wish, obstacle, attempt, turn, end."""

from __future__ import annotations

from .side import Side

OPENING = (
    "Once there was a {trait1} {hero1} who lived near {place1}.",
    "In {place1} lived a {trait1} {hero1} called {person1}.",
    "It was a {weekday} in {month}, and the {hero1} was {feeling}.",
    "Nobody in {city1} had ever seen such a {trait1} {hero1}.",
    "{person1} was a {hero1}, and a {trait1} one.",
    "Long ago, when {city1} was still small, a {hero1} found a {object1}.",
    "The {weather} had lasted for {3..30} days when the {hero1} left home.",
    "They say {place1} has no {hero1} any more, but once it had a {trait1} one.",
    "Of all the animals and people near {place1}, the {hero1} was the most {trait1}.",
    "On the last day of {month} a {adjective} {object1} lay in front of the door.",
    '"I want to {goal1}," said the {hero1} one evening.',
)
WISH = (
    "More than anything it wished to {goal1}.",
    "There was only one wish left: to {goal1}.",
    "Everybody knew the dream of the {hero1}, which was to {goal1}.",
    '"If only I could {goal1}," sighed the {hero1}.',
    "One day a {friend1} came along and asked for help to {goal1}.",
    "An old {friend1} had promised that a {object1} would help to {goal1}.",
    "So the {hero1} took the {object1} and set out to {goal1}.",
    "The {friend1} said it was too late to {goal1}, but the {hero1} did not listen.",
)
OBSTACLE = (
    "But {obstacle1}.",
    "Then {obstacle1}, and the {hero1} felt {feeling}.",
    "{adverb_start} it turned out that {obstacle1}.",
    "Halfway there, {obstacle1}.",
    "Just when things looked good, {obstacle1}.",
    "At {place}, {obstacle1}, and nobody was there to help.",
    "The {friend1} had warned of it: {obstacle1}.",
)
ATTEMPT = (
    "The {hero1} tried it with a {object}, then with a {object}, but nothing worked.",
    "{adverb_start} the {hero1} looked at the {adjective} {object1} again.",
    '"Let us think," said the {friend1} and sat down {adverb}.',
    "They heard {sound}, and both of them turned round.",
    "For {2..12} hours they worked {adverb}, side by side.",
    "A {trait} {friend} who was passing by gave them some {food}.",
    "The {hero1} counted to {10..90} and tried once more.",
    "There was {sound} in the distance, and then silence.",
    "It tied the {object1} to a piece of {material} and pulled {adverb}.",
    "They shared the last of the {food} and waited for the {weather} to end.",
    '"What would a {job} do?" asked the {friend1}.',
    "In a {colour} box they found {a_material} and a {object}.",
    "{person} of {city} lent them a {adjective} {object}.",
    "The {friend1} wanted to give up and go back to {place}.",
)
TURN = (
    "Then the {hero1} had an idea: the {object1} was made of {material}!",
    "And suddenly it was quite easy.",
    "What had looked like a {adjective} {object} was in truth the way in.",
    "The {friend1} laughed, because the answer had been there all the time.",
    "When the {weather} was over, everything looked different.",
    '"Turn it round," whispered the {friend1}, and it fitted.',
    "A little help from a {trait} {friend} was all it needed.",
    "By {weekday} evening the work was done.",
)
ENDING = (
    "From that day on, the {hero1} and the {friend1} were friends.",
    "The {hero1} had managed to {goal1}, and was {feeling} for the rest of the year.",
    "And the {object1}? It still hangs in {place}.",
    "They went home {adverb} and ate {food}.",
    "People in {city1} still tell the story when there is {weather}.",
    "In the end it did not matter who had been right.",
    '"Next time," said the {hero1}, "we will take a {object}."',
    "That night the {hero1} slept well, and dreamed of {place}.",
    "Since then nobody has called the {hero1} {trait} any more.",
    "So if you ever see a {colour} {object1}, leave it where it is.",
)
TITLES = (
    "The {hero1} and the {object1}",
    "How the {hero1} learned to {goal1}",
    "The {trait1} {hero1}",
    "A {object1} for the {hero1}",
    "The day of the {object1}",
    "{person1} and the {friend1}",
)


def cast(side: Side) -> dict[str, object]:
    """Who the story is about. The request and the story share it, so that the answer fits the question."""
    return {"hero1": side.pick(side.rng.choice(("animal", "animal", "job"))), "friend1": side.pick("animal")}


def story(side: Side, context: dict[str, object]) -> str:
    """One story of some 6 to 14 sentences, in one to three paragraphs, sometimes with a title."""

    def tell(templates: tuple[str, ...]) -> str:
        context["friend"] = side.pick("animal")
        context["adverb_start"] = str(side.pick("adverb")).capitalize() + ","
        context["a_material"] = "a piece of " + str(side.pick("material"))
        return side.say(templates, context)

    paragraphs = [
        [tell(OPENING), *([tell(OPENING)] if side.chance(0.2) else []), tell(WISH)],
        [tell(OBSTACLE), *[tell(ATTEMPT) for _ in range(side.rng.randint(1, 4))]],
        [tell(TURN), *[tell(ENDING) for _ in range(side.rng.randint(1, 2))]],
    ]
    text = ("\n\n" if side.chance(0.5) else " ").join(" ".join(dict.fromkeys(p)) for p in paragraphs)
    return f"{side.say(TITLES, context)}\n\n{text}" if side.chance(0.25) else text
