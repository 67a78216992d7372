"""Reads a page as a browser would: its elements, its words, its tables, its scripts."""

import json
from html.parser import HTMLParser

VOID = {"meta", "img", "link", "input", "br"}


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, the text outside of scripts, the
    scripts, and the rows of its tables as text and class of each cell."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.scripts, self.rows = [], [], [], []
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append(["", dict(attrs).get("class", "")])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.elements[-1][1], data))
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1][0] += data

    def find(self, tag, **attributes):
        return [
            found
            for name, found in self.elements
            if name == tag and all(found.get(key) == value for key, value in attributes.items())
        ]

    @property
    def text(self):
        return " ".join(self.words)

    @property
    def links(self):
        return [
            found[name] for _, found in self.elements for name in ("src", "href") if name in found
        ]

    @property
    def data(self):
        (text,) = [text for kind, text in self.scripts if kind.get("type") == "application/json"]
        return json.loads(text)
