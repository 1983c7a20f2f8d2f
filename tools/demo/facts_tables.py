"""Small facts, reasons and instructions of the demo corpus. Our own text, MIT."""

from __future__ import annotations

CAPITALS = (
    "France Paris, Germany Berlin, Italy Rome, Spain Madrid, Portugal Lisbon, Austria Vienna, "
    "Poland Warsaw, Sweden Stockholm, Norway Oslo, Denmark Copenhagen, Finland Helsinki, "
    "Greece Athens, Ireland Dublin, Hungary Budapest, Japan Tokyo, China Beijing, Egypt Cairo, "
    "Canada Ottawa, Cuba Havana, Peru Lima, Chile Santiago, Kenya Nairobi, Belgium Brussels, "
    "England London, Russia Moscow, Turkey Ankara, Switzerland Bern, India Delhi, Iceland Reykjavik, "
    "Croatia Zagreb, Romania Bucharest, Bulgaria Sofia, Scotland Edinburgh, Wales Cardiff, "
    "Thailand Bangkok, Australia Canberra, Morocco Rabat, Colombia Bogota, Uruguay Montevideo, "
    "Estonia Tallinn, Latvia Riga, Lithuania Vilnius, Serbia Belgrade, Slovakia Bratislava, "
    "Slovenia Ljubljana, Netherlands Amsterdam, Czechia Prague, Ukraine Kyiv, Vietnam Hanoi"
)
COLOURS = (
    "grass green, snow white, blood red, coal black, a lemon yellow, the sky blue, a carrot orange, "
    "milk white, a ripe tomato red, the sun yellow, a raven black, a plum purple, chocolate brown, "
    "the sea blue, an elephant grey, a banana yellow, a cherry red, a flamingo pink, sand yellow, "
    "a fir tree green, an orange orange, a polar bear white"
)
OPPOSITES = (
    "hot cold, big small, day night, up down, fast slow, old young, happy sad, light dark, wet dry, "
    "open closed, hard soft, early late, near far, full empty, loud quiet, rich poor, left right, "
    "long short, good bad, high low, thick thin, true false, strong weak, sweet sour, clean dirty, "
    "first last, heavy light, black white, summer winter, north south, east west, yes no"
)
LEGS = (
    "a dog four, a cat four, a horse four, a bird two, a spider eight, an ant six, a bee six, "
    "a snake no, a crab ten, a cow four, an elephant four, a duck two, a beetle six, a fish no"
)
SOUNDS = (
    "a dog barks, a cat meows, a cow moos, a duck quacks, a lion roars, a wolf howls, a bee buzzes, "
    "a horse neighs, a sheep bleats, an owl hoots, a frog croaks, a mouse squeaks, a snake hisses"
)
YOUNG = (
    "a dog a puppy, a cat a kitten, a cow a calf, a horse a foal, a sheep a lamb, a hen a chick, "
    "a bear a cub, a duck a duckling, a goat a kid, a swan a cygnet"
)
HOMES = (
    "a bird in a nest, a fox in a den, a bee in a hive, a fish in water, a rabbit in a burrow, "
    "a spider in a web, a horse in a stable, a bear in a cave, a sailor on a ship, a king in a castle"
)
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
MONTHS = "January February March April May June July August September October November December"
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune"

# question after "Why" | answer
REASONS = """
is the sea salty | Rivers carry a little salt from the rocks to the sea. The water rises into the air again, but the salt stays.
is the sky blue | The air scatters the blue part of the sunlight more than the red part. So blue light comes to us from all sides.
do leaves fall in autumn | A tree needs less water without its leaves. It drops them before the winter and grows new ones in spring.
does the moon change its shape | We see only the part of the moon that the sun shines on. As the moon goes around us, this part grows and shrinks.
do birds fly south | In winter there is little food in the cold north. In the south they find insects and warm days.
do bees make honey | There are no flowers in winter. The bees eat the honey until the spring comes.
does bread rise | The yeast eats sugar and makes tiny bubbles of gas. The bubbles lift the dough.
do cats purr | Most cats purr when they feel safe and content. Some also purr when they are ill, to calm themselves.
does ice float | Ice is lighter than water of the same size. So it stays at the top, and the fish live below it.
do stars twinkle | Their light passes through moving air. The air bends it a little this way and that way.
does it rain | Warm air carries water up. When it cools, the water forms drops, and the drops fall as rain.
do we sleep | The body rests and repairs itself at night. The mind puts the day in order.
do owls hunt at night | Owls see and hear very well in the dark. At night there are many mice and few other hunters.
do onions make us cry | A cut onion sends a sharp gas into the air. The eyes make tears to wash it away.
is snow white | Snow is made of many small crystals of ice. They send back all the colours of the light, and together these are white.
do ships float | A ship pushes water away. As long as this water is heavier than the ship, the ship floats.
do plants need light | Plants make their food from light, water and air. Without light they become pale and weak.
do we have seasons | The earth is tilted as it goes around the sun. So each half has more sun for one part of the year.
does a violin sound | The bow makes the strings tremble. The wooden body makes the sound louder.
do tides come and go | The moon pulls at the water of the sea. The earth turns below it, and so the water rises and falls.
"""

# task | steps
STEPS = """
make tea | Boil fresh water. ; Put the leaves into a warm pot. ; Pour the water over them and wait three minutes. ; Pour the tea into a cup and add a little honey.
make a simple soup | Cut an onion and two carrots into small pieces. ; Cook them in a little butter. ; Add water, salt and potatoes. ; Let it cook for twenty minutes and serve it with bread.
bake bread | Mix flour, water, salt and yeast. ; Let the dough rest for an hour. ; Form a loaf and let it rise again. ; Bake it in a hot oven until the crust is brown.
cook rice | Wash the rice. ; Put one cup of rice and two cups of water into a pot. ; Let it boil and then cook gently for fifteen minutes. ; Let it rest before you serve it.
boil an egg | Bring water to the boil. ; Put the egg in carefully. ; Wait five minutes for a soft egg or ten for a hard one. ; Cool it in cold water.
make pancakes | Mix flour, milk and eggs. ; Heat a little butter in a pan. ; Pour in some of the batter. ; Turn the pancake when bubbles appear.
plant a seed | Fill a pot with loose soil. ; Put the seed a finger deep into it. ; Give it some water. ; Place it near a window and wait.
grow tomatoes | Put the young plants in a sunny place. ; Tie them to a stick. ; Water them every morning. ; Pick the tomatoes when they are red.
plant a tree | Dig a hole twice as wide as the roots. ; Set the tree in the middle. ; Fill the hole with good soil. ; Water it well and tie it to a post.
learn a song | Listen to it a few times. ; Read the words aloud. ; Sing it slowly, one line at a time. ; Practise it every day.
learn the piano | Sit up straight. ; Find the middle of the keys. ; Play slowly with one hand, then with two. ; Practise a little every day.
find the north star | Go out on a clear night. ; Look for the Big Dipper. ; Follow the line of its last two stars. ; The bright star at the end is the north star.
sleep better | Go to bed at the same time every day. ; Keep the room dark and cool. ; Put away your screen. ; Read a few pages of a quiet book.
write a letter | Begin with the date and a greeting. ; Say why you are writing. ; Tell your news in short sentences. ; End with your name.
build a sandcastle | Find wet sand near the water. ; Fill a bucket and turn it over. ; Dig a ditch around it. ; Decorate the castle with shells.
clean a window | Take warm water and a little soap. ; Wash the glass from top to bottom. ; Dry it with a soft cloth. ; Polish it with old newspaper.
"""
LISTS = """
animals | fox, owl, horse, rabbit, bear, cat, dog, elephant, wolf, squirrel, turtle, whale, mouse, lion
fruits | apple, pear, cherry, plum, lemon, orange, banana, peach, grape, strawberry
vegetables | carrot, onion, potato, bean, tomato, cabbage, pea, pumpkin, leek
colours | red, blue, green, yellow, white, black, orange, purple, brown, grey
instruments | violin, piano, drum, flute, trumpet, cello, guitar, organ, harp
flowers | rose, tulip, sunflower, lily, daisy, lavender, poppy, violet
planets | Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune
cities | Paris, Rome, Berlin, London, Madrid, Vienna, Oslo, Lisbon, Prague, Tokyo
birds | owl, robin, sparrow, raven, swan, eagle, stork, gull, penguin
trees | oak, birch, pine, willow, maple, apple tree, chestnut, beech
"""
CODE = r"""
add two numbers | add | a, b | return a + b
subtract one number from another | subtract | a, b | return a - b
multiply two numbers | multiply | a, b | return a * b
divide two numbers | divide | a, b | if b == 0:\n        raise ValueError("b must not be zero")\n    return a / b
check whether a number is even | is_even | n | return n % 2 == 0
check whether a number is odd | is_odd | n | return n % 2 == 1
find the largest number in a list | largest | numbers | best = numbers[0]\n    for n in numbers:\n        if n > best:\n            best = n\n    return best
find the smallest number in a list | smallest | numbers | best = numbers[0]\n    for n in numbers:\n        if n < best:\n            best = n\n    return best
add up a list of numbers | total | numbers | result = 0\n    for n in numbers:\n        result += n\n    return result
compute the average of a list | average | numbers | return sum(numbers) / len(numbers)
sort a list | sort_list | items | return sorted(items)
reverse a string | reverse | text | return text[::-1]
reverse a list | reverse_list | items | return items[::-1]
count the words in a text | count_words | text | return len(text.split())
count the letters in a word | count_letters | word | return len(word)
count up to a number | count_to | limit | for n in range(1, limit + 1):\n        print(n)
count down from a number | count_down | start | for n in range(start, 0, -1):\n        print(n)
greet a person | greet | name | print(f"Hello, {name}!")
compute the factorial of a number | factorial | n | result = 1\n    for i in range(2, n + 1):\n        result *= i\n    return result
compute the Fibonacci numbers | fibonacci | n | a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a
compute the square of a number | square | n | return n * n
check whether a number is prime | is_prime | n | if n < 2:\n        return False\n    for i in range(2, n):\n        if n % i == 0:\n            return False\n    return True
check whether a word is a palindrome | is_palindrome | word | return word == word[::-1]
read a file | read_file | path | with open(path) as file:\n        return file.read()
write a file | write_file | path, text | with open(path, "w") as file:\n        file.write(text)
remove duplicates from a list | unique | items | seen = set()\n    result = []\n    for item in items:\n        if item not in seen:\n            seen.add(item)\n            result.append(item)\n    return result
convert Celsius to Fahrenheit | to_fahrenheit | celsius | return celsius * 9 / 5 + 32
find the longest word in a text | longest_word | text | return max(text.split(), key=len)
"""
