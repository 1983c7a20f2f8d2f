"""Words and turns of the demo corpus's stories and poems. Our own text, MIT."""

from __future__ import annotations

# Wanted long: a hero is copied from the question, so the model learns to copy a word it is given.
HEROES = (
    "fox, rabbit, bear, cat, dog, owl, horse, hedgehog, mouse, wolf, lion, squirrel, turtle, duck, "
    "goose, swan, frog, goat, sheep, lamb, pig, cow, donkey, pony, deer, moose, beaver, otter, seal, "
    "whale, dolphin, crab, snail, ant, bee, spider, beetle, butterfly, ladybird, crow, raven, "
    "sparrow, robin, eagle, hawk, parrot, penguin, peacock, stork, heron, tiger, elephant, giraffe, "
    "monkey, camel, kangaroo, koala, panda, zebra, hippo, crocodile, snake, lizard, bat, mole, "
    "badger, weasel, hamster, kitten, puppy, hen, rooster, chick, fish, shark, octopus, dragon, "
    "unicorn, giant, dwarf, elf, fairy, witch, wizard, ghost, troll, goblin, mermaid, robot, "
    "snowman, knight, king, queen, prince, princess, pirate, sailor, captain, fisherman, farmer, "
    "baker, miller, cook, tailor, shoemaker, blacksmith, carpenter, gardener, teacher, doctor, "
    "nurse, painter, singer, musician, dancer, writer, poet, student, scientist, astronaut, pilot, "
    "driver, postman, soldier, hunter, shepherd, merchant, clockmaker, librarian, detective, thief, "
    "traveller, girl, boy, child, grandmother, grandfather, mother, father, sister, brother, twin, "
    "tree, flower, star, cloud, river, stone, leaf, snowflake, candle, lantern, kite, clock, boat, "
    "train, lighthouse, pumpkin, potato, teapot, umbrella, violin, drum, bell, key, pencil, book"
)
HELPERS = (
    "owl, miller, fisherman, teacher, horse, blacksmith, gardener, grandmother, shepherd, turtle, "
    "raven, baker, hedgehog, sailor, wizard, swan, farmer, postman, queen, frog, donkey, painter"
)
NAMES = (
    "Mila, Tom, Anna, Ben, Clara, Finn, Greta, Hugo, Ida, Jonas, Lena, Max, Nora, Oscar, Paula, Ruby, "
    "Sam, Tilda, Victor, Zoe, Leo, Maria, Emil, Rosa, Otto, Alma"
)
ADJECTIVES = (
    "small, brave, curious, quiet, young, clever, gentle, lonely, cheerful, old, kind, sad, happy, "
    "poor, proud, shy, hungry, tired, lucky, lazy, funny, tiny, wise"
)
PLACES = (
    "at the edge of a forest, in a village by the river, near the sea, on a hill, in an old mill, "
    "in a house with a red door, under a tall oak, beside a lake, in a busy town, behind the church, "
    "on a small island, at the foot of a mountain, in a castle, in a garden full of roses, "
    "in a far country, next to a railway station"
)
WHEN = (
    "One day, One evening, One cold morning, In the spring, One winter night, One summer day, "
    "Early one morning, On a rainy day, One autumn evening, When the first snow fell"
)
# problem | what the helper said | deed | outcome. {he} {his} {him} follow the hero.
PROBLEMS = """
lost the way home | The path begins behind the hill | followed the path behind the hill | soon {he} saw the light of {his} window
wanted to see the other side of the river | We can build a bridge | carried wood and stones for seven days | at last they crossed the bridge together
was hungry and had nothing to eat | I have bread for two | sat down under a tree | they shared the bread and some cheese
could not sleep | Count the stars with me | counted the stars until midnight | after that the nights were quiet
found a small golden key | Every key has a door | tried every door in the town | the last one opened into a secret garden
was afraid of the dark forest | Walk beside me and sing | sang all the way | the forest was not so dark after all
wanted to learn a song | Listen first, then sing | listened every evening | in the spring they sang it together
had a friend who was ill | A warm soup will help | cooked a large pot of soup | the friend was well again in a week
dreamed of the sea | Follow the river | walked beside the river for three days | at last they stood on the beach
broke a window by accident | It is best to tell the truth | told the truth | they laughed and mended the window together
lost a red scarf in the wind | The wind gives back what it takes | looked behind every fence | the scarf was hanging in the apple tree
heard a strange noise in the attic | Let us go and look | climbed the stairs with a candle | they found a family of mice having a party
wanted to fly | You do not need wings to see far | climbed the highest hill | the whole world lay at {his} feet
found a map in an old book | The cross is near the oak | dug under the oak with a spoon | there was a box full of old letters
had no one to play with | Come and play with us | played until the sun went down | {he} had more friends than {he} could count
saw a light far out at sea | Somebody needs our help | rowed a little boat through the waves | they brought a lost sailor home
forgot the birthday of {his} best friend | A small gift is better than none | picked flowers in the meadow | the friend was very happy
wanted to win the race | Run slowly and do not stop | ran slowly and never stopped | {he} was the first at the bridge
planted a seed in a pot | Give it water and time | gave it water every morning | in the summer it was taller than the house
met a stranger at the gate | A guest is a friend we do not know yet | opened the gate and made some tea | the stranger told stories until midnight
lost {his} voice | Rest, and drink warm milk with honey | rested for three days | {he} could sing again
wanted to catch the moon | Look into the lake | looked into the quiet lake | there was the moon, close enough to touch
had to cross the mountains | Go early and take a warm coat | went early and took a warm coat | {he} was on the other side before night
quarrelled with {his} neighbour | Say that you are sorry | said sorry with a basket of apples | they have been friends ever since
"""
ENDINGS = """
From that day on they were friends.
That night the {hero} slept well and dreamed of tomorrow.
And whenever it rained, the {hero} remembered that day and smiled.
The {hero} never forgot it.
And so the {hero} learned to be patient.
After that the {hero} was never lonely again.
The {hero} went home with a light heart.
And if you go there today, you may still meet the {hero}.
That is the end of the story.
And the {hero} told this story to everyone who wanted to hear it.
"""
MIDDLES = """
The wind was cold, but the {hero} did not turn back.
It was not easy, and it took a long time.
At first nobody believed in the {hero}.
The {hero} was tired but happy.
The moon was shining, and everything was still.
It rained all day, but that did not matter.
"""

# Four-line poems: two rhyming couplets, any two of a theme can follow each other.
COUPLETS: dict[str, str] = {
    "the sea": """
The waves come in, the waves go out, / the gulls fly high and turn about.
A little boat goes up and down / and brings the fish into the town.
The sea is deep, the sea is wide, / and silver fishes swim inside.
I found a shell upon the sand / and held the ocean in my hand.
""",
    "the moon": """
The moon is round, the moon is bright, / it walks with me through half the night.
It shines on roof and road and tree / and on the dark and quiet sea.
The stars come out, the owls awake, / the moon is floating on the lake.
It has no fire, it has no flame, / it shines upon us all the same.
""",
    "the spring": """
The snow is gone, the grass is green, / the finest spring I ever have seen.
The birds are singing in the tree, / and one of them has sung for me.
The rain is soft, the wind is mild, / and every garden is a child.
The tulips open, red and white, / and close their petals for the night.
""",
    "the rain": """
The rain is knocking on the pane / and runs along the narrow lane.
The street is full of little lakes / and every step a splash it makes.
The clouds are grey, the fields are wet, / the sun has not come through as yet.
I like to sit and hear the rain / until the sky is clear again.
""",
    "a cat": """
The cat lies sleeping on the chair / and has the sunshine in her hair.
She dreams of mice, she dreams of cream, / and nothing ever stops her dream.
She hears a sound, she lifts her head, / and then goes quietly back to bed.
At night she walks upon the wall / and makes no sound, no sound at all.
""",
    "the night": """
The day is done, the lamps are low, / and through the street the shadows go.
The owl is awake, the children sleep, / the sky is dark and very deep.
A train goes by, so far away, / it takes along the tired day.
Good night to house and hill and tree, / good night to you, good night to me.
""",
}
