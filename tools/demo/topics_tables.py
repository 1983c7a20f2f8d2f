"""What the demo corpus talks about: our own sentences, by topic.

Each topic has entities with facts (complete clauses that begin after the entity's name) and scenes
(sentences with slots in braces, filled from the topic's word lists). Written for this project and
released with it under the MIT licence.
"""

from __future__ import annotations

ENTITIES: dict[str, str] = {
    "sea": """
the sea | covers most of the world; is salty and never still; changes its colour with the sky; hides mountains that nobody has climbed; moves with the moon
the tide | comes in twice a day; leaves shells on the sand; follows the moon; carries small boats up the beach
a whale | is the largest animal in the sea; breathes air at the surface; sings songs that travel for miles; travels far to find food
a lighthouse | stands on the rocks; shows ships the way at night; turns its lamp slowly; warns sailors of danger
the harbour | is full of fishing boats; smells of salt and rope; wakes before the sun; keeps the boats safe in a storm
a wave | begins far out in the wind; rises before it breaks; rolls onto the sand with a sigh; can be taller than a house
a coral reef | is built by tiny animals; gives a home to bright fish; grows very slowly; needs warm and clear water
an octopus | has eight arms and three hearts; can change its colour; hides in small holes; opens shells with great patience
""",
    "space": """
the moon | shines with borrowed light; pulls the tides of the sea; has no air and no weather; goes around the earth in about a month
the sun | is a star like many others; gives us light and warmth; is far too bright to look at; keeps the planets in their paths
a star | is a great ball of hot gas; shines for millions of years; looks small because it is so far away; is born in a cloud of dust
a planet | goes around a star; can be made of rock or gas; may have moons of its own; turns as it travels
a comet | is a ball of ice and dust; grows a tail near the sun; returns after many years; moves through the dark in silence
a telescope | gathers light from far away; makes faint stars bright; shows us the past; works best on a dark mountain
a rocket | burns fuel to rise; drops its empty stages; must be very fast to leave the earth; carries people and machines
the galaxy | holds more stars than we can count; turns very slowly; looks like a pale river at night; is one of many
""",
    "garden": """
a garden | needs water and patience; is full of small work; is most beautiful in early summer; feeds bees and birds
a rose | has thorns on its stem; smells sweet in the evening; opens slowly in the sun; must be cut back in winter
a bee | carries pollen from flower to flower; makes honey from nectar; dances to show the way; lives with thousands of sisters
an apple tree | blossoms in spring; bears fruit in autumn; gives shade on hot days; can live for a hundred years
the soil | is alive with tiny creatures; feeds every root; should be dark and loose; holds the rain for dry days
a tomato | likes warm sun; grows on a tall stick; turns from green to red; tastes best when it is picked ripe
a seed | sleeps until it is warm and wet; knows which way is up; holds a whole plant inside; can wait for many years
a hedgehog | sleeps through the winter; eats slugs and beetles; rolls into a ball when it is afraid; comes out at night
""",
    "cooking": """
bread | is made of flour, water, salt and yeast; must rest before it is baked; smells wonderful in the morning; has a crust that cracks as it cools
a soup | begins with onions in a warm pot; is better on the second day; needs time and a little salt; warms the whole house
a good knife | should be sharp and clean; makes the work quick and safe; must be held with care; lasts a lifetime
rice | swells as it cooks; needs twice as much water; feeds half of the world; should be washed before it is cooked
cheese | is made from milk; grows stronger with age; goes well with bread and fruit; comes in hundreds of kinds
an egg | can be boiled, fried or baked; holds a cake together; is done in a few minutes; must be fresh
a pancake | needs only flour, milk and eggs; is turned when bubbles appear; tastes good with honey; is best when it is hot
tea | is made with hot water; should not stand too long; comes from the leaves of a bush; is good company in the evening
""",
    "weather": """
rain | falls when clouds grow heavy; fills the rivers and the wells; makes the streets shine; is welcome after a dry summer
snow | falls in quiet flakes; covers the fields in white; makes the world silent; melts when the wind turns warm
a storm | brings wind and thunder; bends the tall trees; passes as quickly as it came; leaves the air clean
the wind | moves the clouds and the leaves; turns the mills; comes from far away; is strongest on the hill
fog | hides the road in the morning; is a cloud on the ground; rises when the sun grows warm; makes every sound seem near
a rainbow | appears when sun and rain meet; has seven colours; is always opposite the sun; cannot be reached by walking
thunder | follows the lightning; sounds like a great drum; is loud when the storm is near; frightens the dog
a cloud | is made of tiny drops of water; floats because it is so light; takes on many shapes; brings shade on a hot day
""",
    "music": """
a violin | has four strings and a bow; can sing like a voice; is made of thin wood; takes many years to learn
a piano | has black and white keys; sounds soft or loud; is tuned once a year; fills a room with music
a drum | keeps the time for everyone; is one of the oldest instruments; speaks with a deep voice; is played with hands or sticks
a song | has words and a melody; stays in the mind all day; brings people together; can be happy and sad at once
an orchestra | has strings, winds and drums; follows one conductor; plays as if it were one person; tunes before it begins
a flute | is played with the breath; has a clear and gentle sound; is made of wood or metal; sounds like a bird in the morning
a choir | sings in many voices; practises every week; needs no instruments; fills the old church with sound
the guitar | has six strings; is easy to carry; goes well with a song; is played by the fire
""",
    "village": """
the baker | rises before dawn; knows everyone by name; gives warm rolls to the children; sings while he works
the old mill | stands beside the river; has not turned for years; is a home for owls; belongs to the miller's daughter
the market | is held on Saturday; is full of voices; sells apples, cheese and wool; ends when the bell rings at noon
the school | has one room and two teachers; opens its windows in spring; stands next to the church; has a map of the world on the wall
the river | runs through the village; is cold even in summer; carries leaves to the sea; has a bridge of grey stone
the blacksmith | works at a glowing fire; mends gates and tools; has strong arms and a kind heart; tells stories in the evening
the clock tower | can be seen from every street; is always five minutes late; has a bell of bronze; was built by the people themselves
the doctor | visits the sick on foot; carries a brown leather bag; listens before she speaks; plays the violin on Sundays
""",
    "animals": """
a fox | is clever and quiet; hunts mice in the fields; has a red coat and a white tip on its tail; lives in a den under the roots
a dog | is loyal to its family; can smell what we cannot see; likes long walks; guards the house at night
a cat | sleeps for most of the day; lands on its feet; purrs when it is content; sees well in the dark
an elephant | never forgets a path to water; uses its trunk like a hand; lives in a family led by a grandmother; is afraid of bees
an owl | flies without a sound; turns its head almost all the way round; hunts at night; lives in hollow trees
a horse | can sleep standing up; knows the way home; likes apples and soft words; runs like the wind
a rabbit | has long ears and soft fur; digs tunnels in the ground; eats grass and clover; runs in quick turns
a bear | sleeps through the cold months; loves honey and berries; can climb trees; is strong but shy
""",
}

SCENES: dict[str, str] = {
    "sea": """
The {adj} water {moves} against the {place}.
{Person} walked along the {place} and looked for {thing}.
At {time} the boats came home with {thing}.
The gulls cried over the {place} while the wind blew from the {dir}.
A {adj} boat lay near the {place}, and nobody was in it.
If you listen at {time}, you can hear the waves from far away.
""",
    "space": """
At {time} the sky was {adj} and full of stars.
{Person} looked through the telescope and saw {thing}.
The light of {thing} takes many years to reach us.
Far beyond the {place} there is only {adj} silence.
The astronauts waited near the {place} and counted {thing}.
Nobody knows what lies behind {thing}, but many people would like to find out.
""",
    "garden": """
In the {place} {person} planted {thing} in a {adj} row.
The bees came at {time} and visited {thing}.
After the rain the {place} was {adj} and green.
{Person} picked {thing} and carried them to the kitchen.
A {adj} bird sang near the {place}.
You should water {thing} at {time}, when the sun is low.
""",
    "cooking": """
First cut {thing} into small pieces and put them in a {adj} {place}.
Then add {thing} and stir slowly.
{Person} tasted the {adj} sauce and smiled.
Let it cook until it is soft, and serve it with {thing}.
At {time} the kitchen smelled of {thing}.
Keep the {place} warm, and do not forget the salt.
""",
    "weather": """
At {time} the sky turned {adj} and the wind came from the {dir}.
Tomorrow it will be {adj} in the {place}, with some rain in the evening.
{Person} opened the window and felt the {adj} air.
The {place} was quiet after {thing}.
{Thing} came over the {place} in the afternoon.
Take a coat, because it may be {adj} at {time}.
""",
    "music": """
{Person} played {thing} in the {place} at {time}.
The melody was {adj}, and everyone in the {place} was silent.
We heard {thing} through the open window.
After the last note there was a {adj} pause.
The children learned {thing} and sang it in the {place}.
Good music is {adj} even when it is played softly.
""",
    "village": """
At {time} the {adj} street was full of people.
{Person} bought {thing} at the market and carried it home.
The children ran across the {place} and laughed.
In the {place} the old men talked about {thing}.
{Person} lived in a {adj} house near the {place}.
When the bell rang at {time}, everybody came to the {place}.
""",
    "animals": """
The {adj} animal came out of the {place} at {time}.
{Person} saw {thing} near the {place} and stood very still.
In winter they find little food in the {place}.
The young ones play with {thing} and learn quickly.
It moved through the {place} without a sound.
At {time} you may see {thing} if you are {adj} and patient.
""",
}

WORDS: dict[str, dict[str, str]] = {
    "sea": {
        "adj": "blue, grey, cold, calm, dark, silver, deep, restless",
        "place": "shore, harbour, rocks, beach, pier, bay, cliffs",
        "thing": "shells, silver fish, driftwood, amber, crabs, a message in a bottle, old nets",
        "moves": "washed, beat, sighed, rolled, broke",
    },
    "space": {
        "adj": "black, clear, endless, cold, deep, quiet, dark",
        "place": "last planet, launch tower, ring of dust, edge of the galaxy, space station",
        "thing": "a pale comet, the rings of a planet, a distant star, three small moons, a red star",
    },
    "garden": {
        "adj": "straight, fresh, small, wild, sunny, quiet, little",
        "place": "garden, greenhouse, orchard, vegetable bed, meadow, shady corner",
        "thing": "roses, beans, young carrots, tulips, strawberries, sunflowers, herbs",
    },
    "cooking": {
        "adj": "hot, large, heavy, rich, simple, deep, clean",
        "place": "pot, pan, oven, bowl, kitchen",
        "thing": "onions, carrots, fresh herbs, mushrooms, a little butter, garlic, potatoes, beans",
    },
    "weather": {
        "adj": "cold, grey, warm, windy, clear, mild, stormy",
        "place": "valley, mountains, town, north, forest, islands",
        "thing": "a heavy storm, the first snow, a warm rain, thick fog, a long drought",
    },
    "music": {
        "adj": "gentle, bright, sad, slow, joyful, solemn, light",
        "place": "hall, church, garden, square, old theatre, small room",
        "thing": "an old song, a slow waltz, the second movement, a lullaby, a folk dance",
    },
    "village": {
        "adj": "narrow, sunny, old, quiet, little, crooked, busy",
        "place": "square, inn, church, bridge, mill, market, schoolyard",
        "thing": "a basket of apples, warm bread, news from the town, a wool coat, a round cheese",
    },
    "animals": {
        "adj": "shy, hungry, brave, careful, young, quick, tired",
        "place": "forest, field, tall grass, old barn, river bank, hills",
        "thing": "fresh tracks, fallen leaves, a small nest, bright feathers, a hollow log",
    },
}

COMMON: dict[str, str] = {
    "person": "Anna, Ben, Clara, David, Emma, Felix, Greta, Hugo, Ida, Jonas, Lena, Martin, Nora, "
    "Oscar, Paula, Simon, Tilda, Victor, my grandmother, the young teacher, an old man, the girl",
    "time": "dawn, noon, dusk, night, midnight, sunrise, the end of the day, five o'clock",
    "dir": "north, south, east, west",
}

STORY_PROBLEMS = """
had lost the way home | asked an old {helper} for help | the {helper} showed a path behind the hill
wanted to see the other side of the river | waited for the {helper} | they crossed the bridge together
was hungry and alone | met a kind {helper} | they shared bread and cheese under a tree
could not sleep at night | talked to the {helper} about the stars | after that the nights were quiet
found a small golden key | showed it to the {helper} | the key opened a door in the old wall
was afraid of the dark forest | walked beside the {helper} | the forest was not so dark after all
wanted to learn a song | listened to the {helper} every evening | in spring they sang it together
had a friend who was ill | brought soup from the {helper} | the friend was well again in a week
dreamed of the sea | followed the river with the {helper} | at last they stood on the beach
broke the {helper}'s window | told the truth | the {helper} laughed, and they mended it together
"""
STORY_HEROES = (
    "fox, rabbit, bear, girl, boy, cat, dog, owl, horse, hedgehog, sailor, baker, little star"
)
STORY_HELPERS = (
    "owl, miller, fisherman, teacher, horse, blacksmith, gardener, grandmother, shepherd"
)
STORY_ADJECTIVES = "small, brave, curious, quiet, young, clever, gentle, lonely, cheerful"
STORY_PLACES = (
    "at the edge of a forest, in a village by the river, near the sea, on a hill, in an old mill, "
    "in a house with a red door, under a tall oak, beside a lake"
)
STORY_ENDINGS = """
From that day on they were friends.
That night the {hero} slept well and dreamed of tomorrow.
And whenever it rained, the {hero} remembered that day and smiled.
The {hero} never forgot it.
And so the {hero} learned to be patient.
"""

CAPITALS = (
    "France Paris, Germany Berlin, Italy Rome, Spain Madrid, Portugal Lisbon, Austria Vienna, "
    "Poland Warsaw, Sweden Stockholm, Norway Oslo, Denmark Copenhagen, Finland Helsinki, "
    "Greece Athens, Ireland Dublin, Hungary Budapest, Japan Tokyo, China Beijing, Egypt Cairo, "
    "Canada Ottawa, Cuba Havana, Peru Lima, Chile Santiago, Kenya Nairobi, Belgium Brussels, "
    "England London, Russia Moscow, Turkey Ankara"
)
COLOURS = (
    "grass green, snow white, blood red, coal black, a lemon yellow, the sky blue, a carrot orange, "
    "milk white, a ripe tomato red, the sun yellow, a raven black, a plum purple, chocolate brown"
)
OPPOSITES = (
    "hot cold, big small, day night, up down, fast slow, old young, happy sad, light dark, wet dry, "
    "open closed, hard soft, early late, near far, full empty, loud quiet, rich poor"
)

GERMAN = """
Das Meer ist {mood} und wird nie ganz still.
{Person} geht am {place} spazieren und sucht {thing}.
Am {time} scheint die Sonne auf den {place}.
Der Wind kommt heute aus dem {dir}.
Im Garten wachsen {plant}, und die Bienen summen.
Die Kinder spielen am {place} und lachen.
Das Brot ist frisch, und die Küche riecht nach {smell}.
Am {time} wird es {adj}, und alle gehen nach Hause.
Der alte Mann erzählt eine Geschichte über {thing}.
{Person} wohnt in einem {size}en Haus am {place}.
"""
GERMAN_WORDS = {
    "adj": "kühl, warm, dunkel, schön, still",
    "mood": "ruhig, kalt, dunkel, schön",
    "size": "klein, alt, warm, schön, ruhig",
    "person": "Anna, Felix, die Lehrerin, mein Großvater, der Bäcker, Greta, Jonas",
    "place": "Fluss, Strand, See, Wald, Markt, Hafen",
    "thing": "Muscheln, Sterne, Schiffe, Vögel, Äpfel",
    "plant": "Rosen, Kräuter, Tomaten, Bohnen, Tulpen",
    "smell": "Brot, Kaffee, Kräutern, Äpfeln, Suppe",
    "time": "Morgen, Mittag, Abend, Sonntag, Nachmittag",
    "dir": "Norden, Süden, Osten, Westen",
}
GERMAN_PROMPTS = """
Erzähl mir etwas.
Kannst du Deutsch?
Schreib bitte ein paar Sätze auf Deutsch.
Wie ist das Wetter?
Was machen die Kinder?
Erzähl mir vom Meer.
Erzähl mir vom Garten.
"""
SPANISH = """
El mar está {adj} y nunca duerme.
{Person} camina por la {place} y busca {thing}.
Por la {time} la luz cae sobre la {place}.
Los niños juegan en la {place} y cantan.
En el jardín crecen {plant}, y las abejas trabajan.
La cocina huele a {smell}.
El viento viene del {dir} y trae lluvia.
{Person} vive en una casa {adj2} cerca de la {place}.
Cada {time} mi abuela cuenta una historia.
"""
SPANISH_WORDS = {
    "adj": "tranquilo, frío, azul, oscuro, sereno",
    "adj2": "pequeña, blanca, vieja, alegre",
    "person": "Ana, Pedro, la maestra, mi abuelo, Lucía, el panadero",
    "place": "playa, plaza, montaña, calle, orilla, ciudad",
    "thing": "conchas, estrellas, piedras, flores",
    "plant": "rosas, hierbas, tomates, manzanas",
    "smell": "pan, café, hierbas, sopa",
    "time": "mañana, tarde, noche",
    "dir": "norte, sur, este, oeste",
}
SPANISH_PROMPTS = """
Cuéntame algo.
¿Hablas español?
Escribe unas frases en español.
¿Cómo está el mar?
Háblame del jardín.
¿Qué hacen los niños?
"""

CODE = """
add two numbers | add | a, b | return a + b
subtract one number from another | subtract | a, b | return a - b
multiply two numbers | multiply | a, b | return a * b
divide two numbers | divide | a, b | if b == 0:\\n        raise ValueError("b must not be zero")\\n    return a / b
check whether a number is even | is_even | n | return n % 2 == 0
check whether a number is odd | is_odd | n | return n % 2 == 1
find the largest number in a list | largest | numbers | best = numbers[0]\\n    for n in numbers:\\n        if n > best:\\n            best = n\\n    return best
find the smallest number in a list | smallest | numbers | best = numbers[0]\\n    for n in numbers:\\n        if n < best:\\n            best = n\\n    return best
add up a list of numbers | total | numbers | result = 0\\n    for n in numbers:\\n        result += n\\n    return result
reverse a string | reverse | text | return text[::-1]
count the words in a text | count_words | text | return len(text.split())
count up to a number | count_to | limit | for n in range(1, limit + 1):\\n        print(n)
greet a person | greet | name | print(f"Hello, {name}!")
compute the factorial of a number | factorial | n | result = 1\\n    for i in range(2, n + 1):\\n        result *= i\\n    return result
compute the square of a number | square | n | return n * n
check whether a word is a palindrome | is_palindrome | word | return word == word[::-1]
read a file | read_file | path | with open(path) as file:\\n        return file.read()
remove duplicates from a list | unique | items | seen = set()\\n    result = []\\n    for item in items:\\n        if item not in seen:\\n            seen.add(item)\\n            result.append(item)\\n    return result
"""
