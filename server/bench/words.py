"""Short common words for random prompts: in most vocabularies each is one token, its space included."""

_TEXT = """
river stone lake shore island mountain valley forest field garden desert ocean beach cliff
cave rain snow storm wind cloud sun moon star sky ice fire smoke dust sand mud spring summer
autumn winter morning evening night noon day week month year hour minute bread milk butter
cheese apple pear lemon orange grape corn rice bean soup salt sugar pepper honey tea coffee
dog cat horse cow sheep goat pig bird fish duck bear wolf fox mouse bee house door window roof
wall floor kitchen table chair bed lamp clock mirror box basket bottle cup plate knife spoon
road bridge street corner station train ship boat car wheel engine ticket map market shop
school church tower castle hand foot head face eye ear arm leg heart voice hair shoulder
finger mother father sister brother child friend neighbor king queen doctor teacher farmer
sailor baker painter writer soldier red blue green yellow white black brown gray gold silver
big small long short wide narrow high low deep old new young warm cold hot dry wet soft hard
quick slow loud quiet bright dark heavy light sweet bitter clean empty full open round walk
run climb swim carry build paint write read sing dance listen look find keep give take bring
send close break mend plant grow cook eat drink sleep wake begin follow wait turn fall rise
pull push throw catch letter book page paper pencil story song picture word number question
answer wood iron copper glass leather cotton wool silk rope nail hammer north south east west
near far above below before after behind between inside always often never again almost
perhaps together alone soon one two three four five six seven eight nine ten twenty hundred
thousand
"""

WORDS: tuple[str, ...] = tuple(_TEXT.split())
