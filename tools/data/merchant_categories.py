"""Makes engine/data/merchant_categories.csv from the PyPI package `iso18245`.

    pip install iso18245==1.4.1
    python3 tools/data/merchant_categories.py > engine/data/merchant_categories.csv

Each code takes its name from the first list that has it: the ISO list, then the public lists of
those who work with the codes. Only the code and the name are taken.
"""

import csv
import sys
from importlib.resources import files

LISTS = ["iso18245_official_list", "stripe_list", "visa_list", "usda_list", "mastercard_list", "amex_list"]
ATTRIBUTION = [
    "# Merchant category codes (ISO 18245) and their names. Made by tools/data/merchant_categories.py",
    "# from the Python package iso18245 1.4.1, Copyright (c) 2020 Jerome Leclanche, MIT License.",
]

# A slip in the source: a search-and-replace reached the data.
CORRECTIONS = {"7511": "Truck stops"}


def read_list(name):
    with (files("iso18245") / "data" / f"{name}.csv").open(encoding="utf-8") as lines:
        for row in list(csv.reader(lines))[1:]:
            yield row[0].strip(), " ".join(row[1].split())


def merged():
    names = {}
    for list_name in LISTS:
        for code, name in read_list(list_name):
            if code.isdigit() and len(code) == 4 and int(code) >= 700 and name:
                names.setdefault(code, name)
    return names | CORRECTIONS


def main():
    names = merged()
    print("\n".join(ATTRIBUTION))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["mcc", "name"])
    for code in sorted(names):
        writer.writerow([code, names[code]])


if __name__ == "__main__":
    main()
