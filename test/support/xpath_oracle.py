"""What lxml finds: reads {"html": text, "expressions": [...]} a line, writes the results a line.

A result is a list of texts, or a number, a boolean, a string, or {"error": text}.
"""
import json
import sys

from lxml import etree


def text_of(found):
    if isinstance(found, str):
        return str(found)
    if isinstance(found, etree._Element) and not isinstance(found.tag, str):
        return found.text or ""
    if isinstance(found, etree._Element):
        return found.xpath("string()")
    return str(found)


def result_of(root, compiled):
    try:
        found = compiled(root)
    except etree.XPathError as error:
        return {"error": str(error)}
    if isinstance(found, list):
        return [text_of(one) for one in found]
    if isinstance(found, float) and found != found:
        return "NaN"
    if isinstance(found, float) and found in (float("inf"), float("-inf")):
        return "Infinity" if found > 0 else "-Infinity"
    return found if isinstance(found, (bool, float)) else str(found)


compiled_of = {}
for line in sys.stdin:
    asked = json.loads(line)
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)
    root = etree.fromstring(asked["html"].encode("utf-8", "replace"), parser)
    answers = []
    for expression in asked["expressions"]:
        if expression not in compiled_of:
            compiled_of[expression] = etree.XPath(expression)
        answers.append(result_of(root, compiled_of[expression]))
    print(json.dumps(answers), flush=True)
