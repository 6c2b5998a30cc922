"""Words that stand in most texts of a language, and so tell little of any one of them.

Without accents and in lower case, as `_words.py` makes them.
"""

from __future__ import annotations

__all__ = ["FREQUENT"]

_ENGLISH = """
    a about after all also an and any are aren as at be because been before being but by can could d did
    didn do does doesn doing don down each even for from further get gets had has have having he her
    here hers him his how i if in into is isn it its itself just ll m may me might more most much must
    my no nor not now of off on once one only or other our out over own re s same shall she should so
    some such t than that the their theirs them then there these they this those through to too two
    under until up upon us ve very was wasn way we were what when where which while who whom why will
    with within without would you your yours
"""

_DUTCH_FRENCH_GERMAN_ITALIAN_PORTUGUESE_SPANISH = """
    aan aber al alla als am anche ao au auch auf aus aux avec bei bij ce ces cet cette che chi com come
    comme como con cui da dans das dass dat de degli dei del della delle dem den der des deze di die dit
    dont door dos du e een ein eine einem einen einer eines el ela elas ele eles elle elles em en entre
    er era es est esta estas este estos et etait fra fur gli haben hat het hij ich ihr ik il ils im ist
    je la las le les leur lo los ma maar mais man mas met mit muito muy na naar nach nao nas ne nel
    nella nicht niet noch non nos nous nur o oder onder ook op os ou par para pas per pero piu plus por
    pour que quella quello quem questa questo qui quien quoi sa sao se sem ses seu si sie sin sind sobre
    son sono sont sous su sua sur sus te tra uber uit um uma umas un una unas und une uno unos uns unter
    van von voor vor vous waar war waren wat wenn werden wie wir wird y ya ze zij zijn zu zum zur
"""

FREQUENT = frozenset([*_ENGLISH.split(), *_DUTCH_FRENCH_GERMAN_ITALIAN_PORTUGUESE_SPANISH.split()])
