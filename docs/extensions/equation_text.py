"""Equations as the terminal prints them, typeset."""

from __future__ import annotations

import re

GREEK = ("alpha", "beta", "gamma", "delta", "epsilon", "theta", "phi", "mu")
SIGNS = {
    **{word: rf"\{word}" for word in GREEK},
    "sum": r"\sum",
    "eps": r"\epsilon",
    "log": r"\log",
    "in": r"\in",
    **{word: word for word in ("dX", "dt", "ij")},
    "A_hat": r"\hat{A}",
    "<-": r"\leftarrow",
    "+=": "{+}{=}",
    "<=": r"\le",
    "...": r"\ldots",
    "*": r"^{*}",
    "|": r"\Vert",
    "{": r"\{",
    "}": r"\}",
}
PIECE = re.compile(
    r"(?P<index>[_^])(?:\((?P<group>(?:[^()]|\([^()]*\))*)\)|(?P<bare>-?\d+(?:/\d+)?|\w+|[*]))"
    r"|(?P<sign>A_hat|<-|\+=|<=|\.\.\.|[*|{}])"
    r"|(?P<numbered>[A-Z])(?P<number>\d)"
    r"|sqrt\((?P<root>[^()]*)\)"
    r"|(?P<word>[A-Za-z]+(?:-[A-Za-z]{2,})?)"
    r"|(?P<other>\s+|.)"
)


def typeset(equation: str) -> str:
    """Returns Markdown: each part of an equation as a formula on a line of its own."""
    parts = re.split(r";\s+|,\s{2,}|,\s(?=[a-zA-Z_']+\s=\s|[a-z]\w*_\w+\s=\s)", equation)
    return "<br>".join(f"${to_latex(part)}$" for part in parts)


def to_latex(text: str) -> str:
    """Converts one equation: a single letter is a symbol, a longer word is upright."""
    latex = "".join(_convert(piece) for piece in PIECE.finditer(text)).strip()
    return re.sub(r" \} (a )?\\text\{ ", r" \1", latex)  # words in a row are one text


def _convert(piece: re.Match[str]) -> str:
    if piece["index"]:
        inner = piece["group"] or piece["bare"]
        if piece["bare"] and inner.isalpha() and inner not in GREEK:  # several indices, as in ij
            latex = r"\top" if inner == "T" else inner
        else:
            latex = to_latex(inner)
        return f"{piece['index']}{{{latex}}}"
    if piece["root"]:
        return f"\\sqrt{{{to_latex(piece['root'])}}}"
    if piece["numbered"]:
        return f"{piece['numbered']}_{piece['number']} "
    token = piece["sign"] or piece["word"] or piece["other"]
    if token in SIGNS:
        return f"{SIGNS[token]} "
    if piece["word"] and len(token) > 1:
        # what stands before a bracket or an index is a function, anything else is said in words
        after = piece.string[piece.end() : piece.end() + 1]
        return f"\\,\\mathrm{{{token}}}" if after and after in "(_^" else f"\\text{{ {token} }}"
    return token
