"""What the demo corpus talks about: our own sentences, by topic.

An entity is a line `name | pronoun | clauses`, each clause complete after the name. A scene is a
sentence with slots in braces, filled from the word lists of its topic and from COMMON. Written for
this project and released with it under the MIT licence.
"""

from __future__ import annotations

ENTITIES: dict[str, str] = {
    "sea": """
the sea | it | covers most of the world; is salty and never still; changes its colour with the sky; hides mountains that nobody has climbed; moves with the moon
the tide | it | comes in twice a day; leaves shells on the sand; follows the moon; carries small boats up the beach
a whale | it | is the largest animal in the sea; breathes air at the surface; sings songs that travel for miles; travels far to find food
a lighthouse | it | stands on the rocks; shows ships the way at night; turns its lamp slowly; warns sailors of danger
the harbour | it | is full of fishing boats; smells of salt and rope; wakes before the sun; keeps the boats safe in a storm
a wave | it | begins far out in the wind; rises before it breaks; rolls onto the sand with a sigh; can be taller than a house
a coral reef | it | is built by tiny animals; gives a home to bright fish; grows very slowly; needs warm and clear water
an octopus | it | has eight arms and three hearts; can change its colour; hides in small holes; opens shells with great patience
a crab | it | walks sideways over the sand; carries its armour with it; hides under stones; waves its claws when it is angry; leaves its old shell when it grows
dolphins | they | live in groups; are quick and playful; speak to each other in whistles; sleep with one half of the brain awake; follow the boats for fun
a fisherman | he | leaves the harbour before sunrise; mends his nets by hand; knows the wind by its smell; sings to the gulls; sells his catch at the pier
the beach | it | is wide and empty in winter; is covered with shells after a storm; is a place for long walks; grows warm under bare feet; changes with every tide
a ship | it | carries people and goods across the sea; needs a good captain; has a bell on the deck; leaves a white trail in the water; can be at sea for many weeks
seagulls | they | cry above the harbour; steal bread from careless people; sleep on the cliffs; can drink salt water; follow the fishing boats home
""",
    "space": """
the moon | it | shines with borrowed light; pulls the tides of the sea; has no air and no weather; goes around the earth in about a month
the sun | it | is a star like many others; gives us light and warmth; is far too bright to look at; keeps the planets in their paths
a star | it | is a great ball of hot gas; shines for millions of years; looks small because it is so far away; is born in a cloud of dust
a planet | it | goes around a star; can be made of rock or gas; may have moons of its own; turns as it travels
a comet | it | is a ball of ice and dust; grows a tail near the sun; returns after many years; moves through the dark in silence
a telescope | it | gathers light from far away; makes faint stars bright; shows us the past; works best on a dark mountain
a rocket | it | burns fuel to rise; drops its empty stages; must be very fast to leave the earth; carries people and machines
the galaxy | it | holds more stars than we can count; turns very slowly; looks like a pale river at night; is one of many
Mars | it | is a cold and red planet; has two small moons; has the highest mountain we know; was once a place with rivers; is visited by little robots
Saturn | it | is famous for its rings; is a giant made of gas; has more than a hundred moons; is so light that it would float on water; needs many years to go around the sun
an astronaut | she | trains for years before a flight; floats inside the station; sees sixteen sunrises in a day; wears a heavy white suit; looks down at the blue earth
a black hole | it | is so heavy that light cannot escape; bends the paths of stars; cannot be seen directly; swallows gas and dust; may be what is left of a dead star
meteors | they | are small stones that fall from space; burn brightly in the air; last only a moment; come in great numbers in August; are also called falling stars
the earth | it | is our home; turns once a day; is mostly covered with water; has one moon; is the only planet where we know of life
""",
    "garden": """
a garden | it | needs water and patience; is full of small work; is most beautiful in early summer; feeds bees and birds
a rose | it | has thorns on its stem; smells sweet in the evening; opens slowly in the sun; must be cut back in winter
a bee | it | carries pollen from flower to flower; makes honey from nectar; dances to show the way; lives with thousands of sisters
an apple tree | it | blossoms in spring; bears fruit in autumn; gives shade on hot days; can live for a hundred years
the soil | it | is alive with tiny creatures; feeds every root; should be dark and loose; holds the rain for dry days
a tomato | it | likes warm sun; grows on a tall stick; turns from green to red; tastes best when it is picked ripe
a seed | it | sleeps until it is warm and wet; knows which way is up; holds a whole plant inside; can wait for many years
a hedgehog | it | sleeps through the winter; eats slugs and beetles; rolls into a ball when it is afraid; comes out at night
tulips | they | come up in early spring; grow from round bulbs; stand in straight rows; close their petals at night; come in almost every colour
an earthworm | it | makes the soil loose; has no eyes and no ears; comes up when it rains; eats dead leaves; is a good friend of every gardener
a gardener | she | gets up early; knows every plant by name; pulls out the weeds; keeps seeds in paper bags; waits for rain as others wait for letters
butterflies | they | drink nectar from flowers; begin life as caterpillars; taste with their feet; like warm and sunny days; rest with closed wings
a sunflower | it | turns its head to the light; grows taller than a man; has hundreds of seeds; feeds the birds in autumn; looks like a small sun
an oak | it | grows slowly and lives long; drops its acorns in autumn; gives shade to a whole family; has deep roots; is a home for birds and insects
""",
    "cooking": """
bread | it | is made of flour, water, salt and yeast; must rest before it is baked; smells wonderful in the morning; has a crust that cracks as it cools
a soup | it | begins with onions in a warm pot; is better on the second day; needs time and a little salt; warms the whole house
a good knife | it | should be sharp and clean; makes the work quick and safe; must be held with care; lasts a lifetime
rice | it | swells as it cooks; needs twice as much water; feeds half of the world; should be washed before it is cooked
cheese | it | is made from milk; grows stronger with age; goes well with bread and fruit; comes in hundreds of kinds
an egg | it | can be boiled, fried or baked; holds a cake together; is done in a few minutes; must be fresh
a pancake | it | needs only flour, milk and eggs; is turned when bubbles appear; tastes good with honey; is best when it is hot
tea | it | is made with hot water; should not stand too long; comes from the leaves of a bush; is good company in the evening
honey | it | is made by bees; is sweet and golden; keeps for many years; is good in tea; tastes of the flowers it comes from
potatoes | they | grow under the ground; can be boiled, baked or fried; came from the mountains of Peru; keep well in a dark cellar; go with almost everything
a cook | he | tastes before he serves; keeps the knives sharp; begins with fresh things; cleans the kitchen at the end; never forgets the salt
chocolate | it | is made from cocoa beans; melts in the hand; is best when it is dark; makes a sad day better; was once a drink for kings
an apple pie | it | is made with butter and sour apples; smells of cinnamon; must cool before it is cut; is best with cream; brings the whole family to the table
salt | it | comes from the sea or from mines; brings out the taste of food; keeps fish and meat from spoiling; was once as dear as gold; should be used with care
""",
    "weather": """
rain | it | falls when clouds grow heavy; fills the rivers and the wells; makes the streets shine; is welcome after a dry summer
snow | it | falls in quiet flakes; covers the fields in white; makes the world silent; melts when the wind turns warm
a storm | it | brings wind and thunder; bends the tall trees; passes as quickly as it came; leaves the air clean
the wind | it | moves the clouds and the leaves; turns the mills; comes from far away; is strongest on the hill
fog | it | hides the road in the morning; is a cloud on the ground; rises when the sun grows warm; makes every sound seem near
a rainbow | it | appears when sun and rain meet; has seven colours; is always opposite the sun; cannot be reached by walking
thunder | it | follows the lightning; sounds like a great drum; is loud when the storm is near; frightens the dog
a cloud | it | is made of tiny drops of water; floats because it is so light; takes on many shapes; brings shade on a hot day
winter | it | is the coldest season; brings short days and long nights; makes ponds freeze; is a time for warm soup; ends when the first flowers come
summer | it | is warm and bright; brings long evenings; is the season of berries; ends with golden fields; is a good time to swim
autumn | it | turns the leaves red and yellow; brings fog and rain; is the time of the harvest; smells of wet earth; sends the birds to the south
spring | it | wakes the gardens; melts the snow; brings the birds back; is full of soft rain; makes people open their windows
lightning | it | is hotter than the face of the sun; looks for the shortest way; strikes tall trees first; lights up the whole valley; is gone in a moment
ice | it | is frozen water; is lighter than water, so it floats; makes the roads slippery; hangs from the roofs in winter; melts in the sun
""",
    "music": """
a violin | it | has four strings and a bow; can sing like a voice; is made of thin wood; takes many years to learn
a piano | it | has black and white keys; sounds soft or loud; is tuned once a year; fills a room with music
a drum | it | keeps the time for everyone; is one of the oldest instruments; speaks with a deep voice; is played with hands or sticks
a song | it | has words and a melody; stays in the mind all day; brings people together; can be happy and sad at once
an orchestra | it | has strings, winds and drums; follows one conductor; plays as if it were one person; tunes before it begins
a flute | it | is played with the breath; has a clear and gentle sound; is made of wood or metal; sounds like a bird in the morning
a choir | it | sings in many voices; practises every week; needs no instruments; fills the old church with sound
the guitar | it | has six strings; is easy to carry; goes well with a song; is played by the fire
a trumpet | it | is made of brass; has a bright and loud sound; wakes the whole street; has three valves; is played with strong breath
a cello | it | has a warm and deep voice; stands between the knees of the player; has four strings; sounds sad and beautiful; is bigger than a violin
a singer | she | warms up her voice; knows hundreds of songs; bows at the end; breathes from deep inside; makes the whole room listen
a concert | it | begins when the lights go down; brings many people together; ends with long applause; is better than any record; needs weeks of practice
a melody | it | is a row of notes; can be remembered for a lifetime; rises and falls like a hill; tells a story without words; needs silence around it
the organ | it | has thousands of pipes; fills the church with sound; is played with hands and feet; can whisper or roar; needs wind to sing
""",
    "village": """
the baker | he | rises before dawn; knows everyone by name; gives warm rolls to the children; sings while he works
the old mill | it | stands beside the river; has not turned for years; is a home for owls; belongs to the miller's daughter
the market | it | is held on Saturday; is full of voices; sells apples, cheese and wool; ends when the bell rings at noon
the school | it | has one room and two teachers; opens its windows in spring; stands next to the church; has a map of the world on the wall
the river | it | runs through the village; is cold even in summer; carries leaves to the sea; has a bridge of grey stone
the blacksmith | he | works at a glowing fire; mends gates and tools; has strong arms and a kind heart; tells stories in the evening
the clock tower | it | can be seen from every street; is always five minutes late; has a bell of bronze; was built by the people themselves
the doctor | she | visits the sick on foot; carries a brown leather bag; listens before she speaks; plays the violin on Sundays
the church | it | stands in the middle of the village; has a small bell; is cool in summer; has windows of coloured glass; is older than any house
the teacher | she | knows every child; writes with white chalk; tells stories about far countries; rings the bell in the morning; has a cat that sleeps on the desk
the inn | it | has a fire in winter; serves soup and dark bread; has a blue door; is full on Friday night; has three rooms for travellers
the bridge | it | is made of grey stone; is older than the mill; shakes when a cart goes over it; is a good place to fish; joins the two halves of the village
a farmer | he | gets up with the sun; has six cows and a grey horse; talks about the weather; brings milk to the market; rests on Sunday
the postman | he | comes on a red bicycle; knows every dog in the street; brings letters and news; whistles while he rides; is never late
""",
    "animals": """
a fox | it | is clever and quiet; hunts mice in the fields; has a red coat and a white tip on its tail; lives in a den under the roots
a dog | it | is loyal to its family; can smell what we cannot see; likes long walks; guards the house at night
a cat | it | sleeps for most of the day; lands on its feet; purrs when it is content; sees well in the dark
an elephant | it | never forgets a path to water; uses its trunk like a hand; lives in a family led by a grandmother; is afraid of bees
an owl | it | flies without a sound; turns its head almost all the way round; hunts at night; lives in hollow trees
a horse | it | can sleep standing up; knows the way home; likes apples and soft words; runs like the wind
a rabbit | it | has long ears and soft fur; digs tunnels in the ground; eats grass and clover; runs in quick turns
a bear | it | sleeps through the cold months; loves honey and berries; can climb trees; is strong but shy
a wolf | it | lives in a pack; howls at night; can smell from far away; hunts deer in the forest; takes care of its young
bees | they | live together in a hive; dance to speak; visit thousands of flowers; make honey for the winter; follow their queen
a squirrel | it | hides nuts in autumn; jumps from tree to tree; has a long soft tail; forgets where half of its nuts are; builds a round nest
a lion | it | is called the king of animals; sleeps most of the day; lives with its family; roars so loud that the ground shakes; hunts in the cool evening
penguins | they | cannot fly but swim very well; live in the cold south; keep their eggs warm on their feet; walk in long rows; stand close together in the wind
a turtle | it | carries its house on its back; can live for a hundred years; is slow on land and quick in water; lays its eggs in the sand; is never in a hurry
a mouse | it | is small and quick; loves grain and cheese; has very good ears; lives in a hole in the wall; is afraid of the cat
a cow | it | eats grass all day; gives us milk; has four parts to its stomach; likes company; has large and gentle eyes
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
After the storm {person} found {thing} on the {place}.
The children sat on the {place} and watched the {adj} waves.
When the fog lifts, you can see the {place} and the {adj} water behind it.
""",
    "space": """
At {time} the sky was {adj} and full of stars.
{Person} looked through the telescope and saw {thing}.
The light of {thing} takes many years to reach us.
Far beyond the {place} there is only {adj} silence.
The astronauts waited near the {place} and counted {thing}.
Nobody knows what lies behind {thing}, but many people would like to find out.
On a {adj} night you can see {thing} without a telescope.
{Person} dreamed of flying to the {place}.
The rocket passed the {place} and flew on into the {adj} dark.
""",
    "garden": """
In the {place} {person} planted {thing} in a {adj} row.
The bees came at {time} and visited {thing}.
After the rain the {place} was {adj} and green.
{Person} picked {thing} and carried them to the kitchen.
A {adj} bird sang near the {place}.
You should water {thing} at {time}, when the sun is low.
{Person} sat in the {place} at {time} and listened to the bees.
In spring the {place} is full of {thing}.
A {adj} path leads through the {place} to an old bench.
""",
    "cooking": """
First cut {thing} into small pieces and put them in a {adj} {place}.
Then add {thing} and stir slowly.
{Person} tasted the {adj} sauce and smiled.
Let it cook until it is soft, and serve it with {thing}.
At {time} the kitchen smelled of {thing}.
Keep the {place} warm, and do not forget the salt.
{Person} put {thing} into the {adj} {place} and waited.
A {adj} meal with {thing} is enough for four people.
{Person} learned to cook with {thing} from an old book.
""",
    "weather": """
At {time} the sky turned {adj} and the wind came from the {dir}.
Tomorrow it will be {adj} in the {place}, with some rain in the evening.
{Person} opened the window and felt the {adj} air.
The {place} was quiet after {thing}.
{Thing} came over the {place} in the afternoon.
Take a coat, because it may be {adj} at {time}.
In the {place} people talk about {thing} for weeks.
{Person} walked through the {adj} morning without a hat.
After {thing} the air in the {place} is {adj} and fresh.
""",
    "music": """
{Person} played {thing} in the {place} at {time}.
The melody was {adj}, and everyone in the {place} was silent.
We heard {thing} through the open window.
After the last note there was a {adj} pause.
The children learned {thing} and sang it in the {place}.
Good music is {adj} even when it is played softly.
In the {place} an old man played {thing}, and nobody spoke.
{Person} practised {thing} until {time}.
A {adj} song came from the {place}.
""",
    "village": """
At {time} the {adj} street was full of people.
{Person} bought {thing} at the market and carried it home.
The children ran across the {place} and laughed.
In the {place} the old men talked about {thing}.
{Person} lived in a {adj} house near the {place}.
When the bell rang at {time}, everybody came to the {place}.
{Person} opened the door of the {place} and let in the {adj} light.
Every year there is a feast in the {place} with {thing}.
A {adj} cat slept in front of the {place}.
""",
    "animals": """
The {adj} animal came out of the {place} at {time}.
{Person} saw {thing} near the {place} and stood very still.
In winter they find little food in the {place}.
The young ones play with {thing} and learn quickly.
It moved through the {place} without a sound.
At {time} you may see {thing} if you are {adj} and patient.
{Person} sat in the {place} until {time} and waited for the {adj} animal.
A {adj} bird flew over the {place} with {thing}.
In the {place} you can find {thing} after the rain.
""",
}

WORDS: dict[str, dict[str, str]] = {
    "sea": {
        "adj": "blue, grey, cold, calm, dark, silver, deep, restless, green, clear, wild, shallow",
        "place": "shore, harbour, rocks, beach, pier, bay, cliffs, sand, dunes, island, sea wall",
        "thing": "shells, silver fish, driftwood, amber, crabs, a message in a bottle, old nets, seaweed, white stones, a wooden oar",
        "moves": "washed, beat, sighed, rolled, broke",
    },
    "space": {
        "adj": "black, clear, endless, cold, deep, quiet, dark, bright, still, wide",
        "place": "last planet, launch tower, ring of dust, edge of the galaxy, space station, red planet, first moon, cloud of gas, dark side of the moon",
        "thing": "a pale comet, the rings of a planet, a distant star, three small moons, a red star, the morning star, the Milky Way, a falling star, a blue planet",
    },
    "garden": {
        "adj": "straight, fresh, small, wild, sunny, quiet, little, green, narrow, old, tidy",
        "place": "garden, greenhouse, orchard, vegetable bed, meadow, shady corner, rose garden, backyard, herb bed",
        "thing": "roses, beans, young carrots, tulips, strawberries, sunflowers, herbs, peas, pumpkins, lavender, cherries, white lilies",
    },
    "cooking": {
        "adj": "hot, large, heavy, rich, simple, deep, clean, warm, small, good, spicy, fresh",
        "place": "pot, pan, oven, bowl, kitchen, dish, pan of oil, copper pot",
        "thing": "onions, carrots, fresh herbs, mushrooms, a little butter, garlic, potatoes, beans, tomatoes, rice, lemon, pepper, cheese, apples, chicken",
    },
    "weather": {
        "adj": "cold, grey, warm, windy, clear, mild, stormy, wet, bright, dry, foggy",
        "place": "valley, mountains, town, north, forest, islands, city, hills, harbour, south, fields",
        "thing": "a heavy storm, the first snow, a warm rain, thick fog, a long drought, a cold wind, a long frost, summer rain, a thunderstorm",
    },
    "music": {
        "adj": "gentle, bright, sad, slow, joyful, solemn, light, beautiful, wild, quiet, strange",
        "place": "hall, church, garden, square, old theatre, small room, kitchen, street, school, opera house",
        "thing": "an old song, a slow waltz, the second movement, a lullaby, a folk dance, a march, a love song, a short sonata, a song about the sea",
    },
    "village": {
        "adj": "narrow, sunny, old, quiet, little, crooked, busy, wide, small, noisy, pretty",
        "place": "square, inn, church, bridge, mill, market, schoolyard, bakery, station, library, well",
        "thing": "a basket of apples, warm bread, news from the town, a wool coat, a round cheese, fresh eggs, a jar of honey, a letter from the city, a bunch of flowers",
    },
    "animals": {
        "adj": "shy, hungry, brave, careful, young, quick, tired, gentle, clever, wild, small",
        "place": "forest, field, tall grass, old barn, river bank, hills, deep forest, valley, garden, snow, lake",
        "thing": "fresh tracks, fallen leaves, a small nest, bright feathers, a hollow log, ripe berries, a white feather, soft moss, a hidden path",
    },
}

COMMON: dict[str, str] = {
    "person": "Anna, Ben, Clara, David, Emma, Felix, Greta, Hugo, Ida, Jonas, Lena, Martin, Nora, Oscar, Paula, Simon, Tilda, Victor, my grandmother, the young teacher, an old man, the girl, the boy, my sister, the old woman, my uncle, a traveller, Maria, Leo, Sofia, Peter",
    "time": "dawn, noon, dusk, night, midnight, sunrise, the end of the day, five o'clock, six in the morning, the first light",
    "dir": "north, south, east, west, sea, mountains",
}
