"""Makes api/feed/data/merchants.csv: the invented merchants of the simulated card network.

    python3 tools/data/merchants.py > api/feed/data/merchants.csv

No name is meant to be a real merchant's. Names fit DE43 (22 characters, cities 13). The same
script gives the same file: the choice is drawn from a fixed seed.
"""

import random

# mcc, typical amount in US cents, weight, second words of the name
KINDS = [
    (5812, 4200, 30, ["Bistro", "Kitchen", "Trattoria", "Grill", "Noodle House", "Brasserie"]),
    (5814, 1350, 40, ["Coffee", "Bagels", "Tacos", "Burger Bar", "Juice Stand"]),
    (5813, 3800, 6, ["Taproom", "Wine Bar"]),
    (5411, 5600, 22, ["Market", "Grocers", "Foods", "Fresh Hall"]),
    (5499, 1900, 10, ["Corner Shop", "Deli"]),
    (5541, 5200, 12, ["Fuel Stop", "Service Stn"]),
    (5542, 4800, 12, ["Pump 24h", "Fuel Auto"]),
    (5552, 2300, 5, ["Chargepoint"]),
    (4121, 2400, 25, ["Cabs", "Rides", "Taxi"]),
    (4111, 450, 12, ["Metro", "Transit"]),
    (4112, 6800, 8, ["Rail", "Railways"]),
    (4511, 38000, 8, ["Air", "Airways"]),
    (4722, 52000, 4, ["Travel", "Tours"]),
    (7011, 24000, 10, ["Inn", "Hotel", "Lodge", "Suites"]),
    (7512, 17500, 4, ["Car Hire", "Rentals"]),
    (7523, 1500, 9, ["Parking"]),
    (5734, 9900, 8, ["Software", "Apps"]),
    (7372, 15000, 12, ["Cloud", "Systems", "Data"]),
    (5817, 1900, 8, ["Studio", "App Store"]),
    (5045, 64000, 4, ["Computers", "Hardware"]),
    (5732, 21000, 5, ["Electronics"]),
    (5943, 3400, 10, ["Stationers", "Office Sup"]),
    (5111, 8700, 4, ["Paper Co"]),
    (5021, 42000, 2, ["Furniture"]),
    (7338, 4600, 3, ["Copy Shop"]),
    (7311, 33000, 6, ["Ads", "Media"]),
    (4814, 7500, 5, ["Telecom", "Mobile"]),
    (4215, 3100, 6, ["Couriers", "Parcel"]),
    (5200, 7900, 4, ["Home Supply", "Hardware Barn"]),
    (5311, 8800, 4, ["Dept Store"]),
    (5651, 7400, 3, ["Outfitters"]),
    (5912, 2600, 5, ["Pharmacy"]),
    (5942, 2900, 4, ["Books"]),
    (8111, 90000, 1, ["Legal LLP"]),
    (8931, 60000, 1, ["Accountants"]),
    (7392, 70000, 1, ["Consulting"]),
    (8299, 18000, 2, ["Training"]),
    (8398, 5000, 2, ["Relief Fund"]),
    (7999, 6200, 2, ["Climbing Hall"]),
    (7832, 2400, 2, ["Cinema"]),
    (7542, 1800, 2, ["Car Wash"]),
    (5533, 9600, 1, ["Auto Parts"]),
    (6011, 20000, 3, ["ATM"]),
]
FIRST = (
    "Alder Amber Anchor Aspen Beacon Birch Bluebird Bramble Brass Cactus Cedar Cinder Clover Copper "
    "Coral Crane Dahlia Delta Drift Dune Ember Falcon Fern Fjord Flint Foxglove Garnet Ginger Granite "
    "Harbor Hazel Heron Indigo Ivory Jasper Juniper Kestrel Lantern Larch Lilac Linden Magpie Maple "
    "Marigold Meadow Mica Nimbus Oak Olive Onyx Orchid Osprey Otter Pebble Pepper Pine Plover Poppy "
    "Quartz Quill Raven Ridge Robin Rowan Saffron Sage Salt Slate Sparrow Spruce Sumac Teal Thistle "
    "Tidal Timber Topaz Umber Velvet Walnut Willow Wren Yarrow Zephyr Zinnia"
).split()
# country, state, city, currency, share
PLACES = [
    ("US", "CA", "San Francisco", "USD", 12), ("US", "CA", "Los Angeles", "USD", 10),
    ("US", "NY", "New York", "USD", 12), ("US", "TX", "Austin", "USD", 7),
    ("US", "WA", "Seattle", "USD", 7), ("US", "IL", "Chicago", "USD", 7),
    ("US", "MA", "Boston", "USD", 5), ("US", "CO", "Denver", "USD", 5),
    ("US", "GA", "Atlanta", "USD", 4), ("US", "FL", "Miami", "USD", 4),
    ("GB", "", "London", "GBP", 3), ("DE", "", "Berlin", "EUR", 3), ("FR", "", "Paris", "EUR", 3),
    ("NL", "", "Amsterdam", "EUR", 1), ("CA", "ON", "Toronto", "CAD", 3), ("MX", "", "Mexico City", "MXN", 2),
    ("JP", "", "Tokyo", "JPY", 2), ("CH", "", "Zurich", "CHF", 1), ("SE", "", "Stockholm", "SEK", 1),
    ("AU", "", "Sydney", "AUD", 1), ("IN", "", "Bengaluru", "INR", 1), ("BH", "", "Manama", "BHD", 1),
]
MERCHANTS = 220


def main():
    draw = random.Random(8583)
    print("# Invented merchants of the simulated card network. Made by tools/data/merchants.py.")
    print("# typical_cents: a middling purchase in US cents; weight: how often it is visited.")
    print("mid,name,city,state,country,currency,mcc,typical_cents,weight")
    names = set()
    for number in range(MERCHANTS):
        # Every kind occurs at home and abroad before chance takes over.
        mcc, cents, weight, seconds = KINDS[number % len(KINDS)] if number < 2 * len(KINDS) else draw.choice(KINDS)
        places = PLACES[:10] if number < len(KINDS) else PLACES
        country, state, city, currency, _ = draw.choices(places, [place[4] for place in places])[0]
        while (name := f"{draw.choice(FIRST)} {draw.choice(seconds)}") in names or len(name) > 22:
            pass
        names.add(name)
        cents = round(cents * draw.uniform(0.7, 1.4))
        weight = max(1, weight if currency == "USD" else weight // 2)
        print(f"{410000000000 + 7919 * number:015d},{name},{city},{state},{country},{currency},{mcc},{cents},{weight}")


if __name__ == "__main__":
    main()
