"""A plausible household: what the slots of the home-command templates are filled with."""

from __future__ import annotations

AREAS = (
    *(
        "kitchen",
        "living room",
        "bedroom",
        "bathroom",
        "hallway",
        "office",
        "garage",
        "dining room",
    ),
    *("nursery", "guest room", "laundry room", "playroom", "study", "patio", "garden", "balcony"),
    *("kids room", "master bedroom", "entryway", "pantry", "attic", "terrace", "library", "den"),
    *("conservatory", "workshop", "gym", "front porch"),
)
FLOORS = (
    *("upstairs", "downstairs", "basement", "ground floor", "first floor", "second floor"),
    *("top floor", "lower floor", "third floor"),
)
NAMES = {
    "light": (
        *(
            "ceiling light",
            "floor lamp",
            "reading lamp",
            "desk lamp",
            "bedside lamp",
            "night light",
        ),
        *("chandelier", "string lights", "spotlights", "table lamp", "led strip", "mirror light"),
        *(
            "pendant lamp",
            "wall light",
            "cabinet lights",
            "lava lamp",
            "fairy lights",
            "piano lamp",
        ),
        *("corner lamp", "salt lamp"),
    ),
    "switch": (
        *("coffee maker", "space heater", "christmas tree", "aquarium pump", "kettle", "iron"),
        *("dehumidifier", "air purifier", "radio", "electric blanket", "toaster", "rice cooker"),
        *("water fountain", "humidifier", "3d printer", "towel warmer", "dishwasher", "router"),
    ),
    "fan": ("ceiling fan", "tower fan", "exhaust fan", "box fan", "pedestal fan", "extractor fan"),
    "media_player": (
        *("tv", "soundbar", "record player", "stereo", "projector", "smart speaker", "television"),
        *("home cinema", "boombox", "tablet"),
    ),
    "climate": (
        *("thermostat", "air conditioner", "heat pump", "radiator", "underfloor heating", "heater"),
        "boiler",
    ),
    "cover": (
        *(
            "left curtain",
            "skylight",
            "roller shutter",
            "pergola roof",
            "sun awning",
            "right blind",
        ),
        *("projector screen", "cat flap", "bay window blind", "roof window", "main gate"),
    ),
    "valve": ("sprinkler valve", "main water valve", "hose valve", "gas valve", "drip line"),
    "lock": (
        *("front door", "back door", "side gate", "shed door", "cellar door", "wall safe"),
        *("barn door", "medicine cabinet", "mailbox"),
    ),
    "scene": (
        *("movie night", "dinner party", "good morning", "bedtime", "relax", "romantic evening"),
        *("focus mode", "game night", "sunset", "away"),
    ),
    "vacuum": ("robot vacuum", "roomba", "dustin", "floor sweeper", "robo cleaner"),
    "weather": ("london", "paris", "berlin", "new york", "tokyo", "madrid", "chicago", "oslo"),
    "sensor": (
        "outdoor sensor",
        "humidity sensor",
        "rain gauge",
        "air quality sensor",
        "smart meter",
    ),
}
"""Device names by Home Assistant domain; none contains a name of `AREAS`."""

WILDCARDS = {
    "message": (
        *("dinner is ready", "we are leaving in ten minutes", "the taxi is here", "time for bed"),
        *("please come downstairs", "the laundry is done", "breakfast is on the table"),
        *("someone is at the door", "the game starts now", "put your shoes on", "lunch is served"),
        *("the movie is starting", "grandma is on the phone", "homework time", "i am home"),
    ),
    "search_query": (
        *("jazz", "the beatles", "taylor swift", "classical music", "abbey road", "daft punk"),
        *(
            "miles davis",
            "morning chill",
            "rock classics",
            "adele",
            "nina simone",
            "the daily news",
        ),
        *("country roads", "mozart", "queen", "lullabies", "bossa nova", "johnny cash", "bach"),
        *("summer hits", "vivaldi", "billie holiday", "rain sounds", "fleetwood mac"),
    ),
    "shopping_list_item": (
        *(
            "milk",
            "eggs",
            "olive oil",
            "bananas",
            "toilet paper",
            "dish soap",
            "two lemons",
            "rice",
        ),
        *("chicken breast", "cat food", "coffee beans", "butter", "whole wheat bread", "tomatoes"),
        *("batteries", "orange juice", "spinach", "cheddar", "a bag of flour", "toothpaste", "tea"),
        *("three onions", "pasta", "honey", "yoghurt", "paper towels", "garlic", "dog treats"),
        *("sparkling water", "apples"),
    ),
    "timer_name": (
        *("pizza", "egg", "laundry", "tea", "pasta", "homework", "workout", "bread", "nap"),
        *("chicken", "cookie", "meditation", "parking", "oven", "rice"),
    ),
}
"""Free text by list name."""

RANGES = {
    "temperature": (*range(15, 29), 18.5, 19.5, 20.5, 21.5, 22.5, 62, 65, 68, 70, 72, 75),
    "position": (*range(5, 101, 5), 12, 33, 48, 66),
    "fan_speed": (*range(5, 101, 5), 1, 17, 42, 88),
    "brightness": (*range(5, 101, 5), 1, 8, 22, 37, 53, 64, 78, 99),
    "color_temperature": tuple(range(2000, 6600, 100)),
    "volume": (*range(5, 101, 5), 3, 18, 27, 41, 62),
    "volume_step_up": (2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50),
    "volume_step_down": (2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50),
    "timer_seconds": (5, 10, 15, 20, 30, 40, 45, 50, 60, 75, 90),
    "timer_minutes": (*range(1, 21), 25, 30, 35, 40, 45, 50, 55, 60, 75, 90),
    "timer_hours": (1, 2, 3, 4, 5, 6, 8, 10, 12, 24),
}
"""Spoken numbers by list name."""
