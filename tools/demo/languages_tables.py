"""German and Spanish of the demo corpus. Our own text, MIT."""

from __future__ import annotations

# theme of the question -> sentences; `any` sentences may follow in every theme.
GERMAN: dict[str, str] = {
    "Meer": """
Das Meer ist {mood} und wird nie ganz still.
Die Wellen rollen an den Strand, und die Möwen rufen.
Am Abend kommen die Boote in den Hafen zurück.
Die Kinder suchen am Strand {thing}.
Der Wind kommt heute aus dem {dir} und riecht nach Salz.
Weit draußen fährt ein {size}es Schiff.
""",
    "Garten": """
Im Garten wachsen {plant}, und die Bienen summen.
Am {time} gießt {person} die Blumen.
Hinter dem Haus steht ein {size}er Apfelbaum.
Nach dem Regen ist alles grün.
Im Frühling blühen {plant} neben dem Weg.
Ein {size}er Vogel singt auf dem Zaun.
""",
    "Wetter": """
Am {time} wird es {adj}, und der Wind kommt aus dem {dir}.
Heute scheint die Sonne, und der Himmel ist blau.
Am {time} regnet es ein wenig.
Im Winter ist es kalt, und der Schnee liegt auf den Dächern.
Morgen wird es {adj}, vielleicht mit etwas Regen.
Der Nebel liegt noch über dem Fluss.
""",
    "Dorf": """
Der alte Mann erzählt eine Geschichte über {thing}.
{Person} wohnt in einem {size}en Haus am {place}.
Das Brot ist frisch, und die Küche riecht nach {smell}.
Die Kinder spielen am {place} und lachen.
Am {time} läutet die Glocke, und alle gehen nach Hause.
Auf dem Markt kauft {person} Brot und Käse.
""",
    "Fuchs": """
Es war einmal ein {size}er Fuchs, der am {place} lebte.
Der Fuchs war klug und leise.
Am {time} traf er einen alten Igel und fragte nach dem Weg.
Sie gingen zusammen durch den Wald und erzählten sich Geschichten.
Am Ende waren sie gute Freunde.
""",
}
GERMAN_PROMPTS: dict[str, str] = {
    "Meer": "Erzähl mir vom Meer.|Wie ist das Meer?|Was siehst du am Strand?|Beschreibe das Meer.",
    "Garten": "Erzähl mir vom Garten.|Was wächst im Garten?|Beschreibe den Garten.",
    "Wetter": "Wie ist das Wetter?|Wie wird das Wetter morgen?|Erzähl mir vom Wetter.",
    "Dorf": "Erzähl mir vom Dorf.|Was machen die Kinder?|Erzähl mir etwas.|Wie ist das Leben im "
    "Dorf?|Schreib bitte ein paar Sätze auf Deutsch.",
    "Fuchs": "Erzähl mir eine Geschichte.|Erzähl mir eine Geschichte über einen Fuchs.|"
    "Erzähl mir bitte ein Märchen.",
}
GERMAN_TALK: tuple[tuple[str, str], ...] = (
    (
        "Hallo|Guten Tag|Guten Morgen|Hallo, wie geht es dir?|Wie geht es dir?",
        "Hallo! Mir geht es gut. Worüber möchtest du sprechen?|Guten Tag! Wie kann ich dir helfen?",
    ),
    (
        "Wer bist du?|Wie heißt du?|Was bist du?",
        (
            "Ich bin das Lamina-Demo-Modell, ein sehr kleines Sprachmodell.|"
            "Ich heiße Lamina Demo. Ich bin klein und weiß nur wenig."
        ),
    ),
    (
        "Kannst du Deutsch?|Sprichst du Deutsch?|Sprich Deutsch.",
        "Ja, ein wenig. Ich kann vom Meer, vom Garten und vom Wetter erzählen.",
    ),
    ("Danke|Vielen Dank|Danke schön!", "Gern geschehen.|Bitte sehr. Frag mich, was du möchtest."),
    ("Was ist die Hauptstadt von Deutschland?", "Die Hauptstadt von Deutschland ist Berlin."),
    ("Was ist die Hauptstadt von Frankreich?", "Die Hauptstadt von Frankreich ist Paris."),
    ("Was ist die Hauptstadt von Österreich?", "Die Hauptstadt von Österreich ist Wien."),
)
GERMAN_WORDS = {
    "adj": "kühl, warm, dunkel, schön, still, windig",
    "mood": "ruhig, kalt, dunkel, schön, blau, tief",
    "size": "klein, alt, schön, groß, jung",
    "person": "Anna, Felix, die Lehrerin, mein Großvater, der Bäcker, Greta, Jonas, meine Mutter",
    "place": "Fluss, Strand, See, Wald, Markt, Hafen",
    "thing": "Muscheln, Sterne, Schiffe, Vögel, Äpfel, bunte Steine",
    "plant": "Rosen, Kräuter, Tomaten, Bohnen, Tulpen, Erdbeeren",
    "smell": "Brot, Kaffee, Kräutern, Äpfeln, Suppe",
    "time": "Morgen, Mittag, Abend, Sonntag, Nachmittag",
    "dir": "Norden, Süden, Osten, Westen",
}
SPANISH: dict[str, str] = {
    "mar": """
El mar está {adj} y nunca duerme.
{Person} camina por la playa y busca {thing}.
Las olas llegan a la orilla y se van otra vez.
Por la {time} los barcos vuelven al puerto.
El viento viene del {dir} y huele a sal.
""",
    "jardín": """
En el jardín crecen {plant}, y las abejas trabajan.
Por la {time} {person} riega las flores.
Después de la lluvia todo está verde.
Un pájaro canta en el árbol.
En primavera hay {plant} cerca de la casa.
""",
    "pueblo": """
Por la {time} la luz cae sobre la {place}.
Los niños juegan en la {place} y cantan.
La cocina huele a {smell}.
{Person} vive en una casa {adj2} cerca de la {place}.
Cada {time} mi abuela cuenta una historia.
En el mercado {person} compra pan y queso.
""",
}
SPANISH_PROMPTS: dict[str, str] = {
    "mar": "¿Cómo está el mar?|Háblame del mar.|Describe el mar.|¿Qué hay en la playa?",
    "jardín": "Háblame del jardín.|¿Qué crece en el jardín?|Describe el jardín.",
    "pueblo": "Cuéntame algo.|¿Qué hacen los niños?|Escribe unas frases en español.|"
    "Háblame del pueblo.|Cuéntame una historia.",
}
SPANISH_TALK: tuple[tuple[str, str], ...] = (
    (
        "Hola|Buenos días|Hola, ¿cómo estás?|¿Cómo estás?|Buenas tardes",
        "¡Hola! Estoy bien, gracias. ¿De qué quieres hablar?|¡Hola! ¿Cómo puedo ayudarte?",
    ),
    (
        "¿Quién eres?|¿Cómo te llamas?|¿Qué eres?",
        "Soy el modelo de demostración de Lamina, un modelo muy pequeño.",
    ),
    (
        "¿Hablas español?|Habla español.",
        "Sí, un poco. Puedo hablar del mar, del jardín y del pueblo.",
    ),
    ("Gracias|Muchas gracias", "De nada.|De nada. Pregunta lo que quieras."),
    ("¿Cuál es la capital de España?", "La capital de España es Madrid."),
    ("¿Cuál es la capital de Francia?", "La capital de Francia es París."),
)
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

# English, German with article, Spanish with article
TRANSLATIONS = """
house | das Haus | la casa
sea | das Meer | el mar
moon | der Mond | la luna
sun | die Sonne | el sol
star | der Stern | la estrella
bread | das Brot | el pan
water | das Wasser | el agua
cheese | der Käse | el queso
apple | der Apfel | la manzana
flower | die Blume | la flor
tree | der Baum | el árbol
dog | der Hund | el perro
cat | die Katze | el gato
horse | das Pferd | el caballo
bird | der Vogel | el pájaro
fish | der Fisch | el pez
book | das Buch | el libro
school | die Schule | la escuela
friend | der Freund | el amigo
mother | die Mutter | la madre
father | der Vater | el padre
child | das Kind | el niño
river | der Fluss | el río
mountain | der Berg | la montaña
night | die Nacht | la noche
day | der Tag | el día
wind | der Wind | el viento
rain | der Regen | la lluvia
snow | der Schnee | la nieve
garden | der Garten | el jardín
kitchen | die Küche | la cocina
song | das Lied | la canción
ship | das Schiff | el barco
window | das Fenster | la ventana
door | die Tür | la puerta
"""
