"""A small agent for a shop: reads a question, decides which tools to call, answers from what they returned.

No model and no network: the decisions are rules, so that the examples run anywhere and give the same answers twice.
Everything else is as with any agent: it takes a prompt, calls tools, and reports what it did.

    order_agent.py --prompt-file QUESTION.txt --out ANSWER.json      one question
    order_agent.py --cases-file CASES.jsonl --out ANSWERS.jsonl      many at once
"""

import argparse
import json
import re
from datetime import date
from pathlib import Path

SHOP = json.loads(Path(__file__).with_name("shop.json").read_text("utf-8"))
SYMBOLS = {"EUR": "€", "GBP": "£"}


def lookup_order(order_id):
    return SHOP["orders"].get(order_id)


def refund_policy(category):
    return {"days": SHOP["refund_days"][category]}


def days_since(day):
    return {"days": (date.fromisoformat(SHOP["today"]) - date.fromisoformat(day)).days}


def issue_refund(order_id, amount, currency):
    return {"reference": f"R-{order_id}", "amount": amount, "currency": currency}


class Desk:
    """One conversation: answers a question and remembers the tool calls it took."""

    def __init__(self):
        self.calls = []

    def use(self, tool, **arguments):
        output = tool(**arguments)
        self.calls.append({"tool": tool.__name__, "input": arguments, "output": output})
        return output

    def answer(self, question):
        words = set(re.findall(r"[a-z]+", question.lower()))
        wants_refund = bool(words & {"refund", "return", "money"})
        number = re.search(r"\b\d{4}\b", question)
        if number:
            return self.about_order(number.group(), wants_refund=wants_refund)
        category = next((name for name in SHOP["refund_days"] if name in words), None)
        if wants_refund and category:
            return f"You can return {category} within {self.use(refund_policy, category=category)['days']} days."
        return "Which order is it about? Please give me its four-digit number."

    def about_order(self, order_id, *, wants_refund):
        order = self.use(lookup_order, order_id=order_id)
        if order is None:
            return f"I could not find order {order_id}. Please check the number."
        if wants_refund:
            return self.refund(order_id, order)
        if order["delivered"] is None:
            return f"Your {order['item']} (order {order_id}) is on its way."
        return f"Your {order['item']} (order {order_id}) was delivered on {order['delivered']}."

    def refund(self, order_id, order):
        if order["delivered"] is None:
            return f"Order {order_id} has not arrived yet, so there is nothing to return."
        allowed = self.use(refund_policy, category=order["category"])["days"]
        passed = self.use(days_since, day=order["delivered"])["days"]
        # This is the mistake that the quickstart finds: the last day of the window counts too.
        if passed >= allowed:
            return f"I am sorry: {order['category']} can be returned for {allowed} days, and {passed} have passed."
        refund = self.use(issue_refund, order_id=order_id, amount=order["price"], currency=order["currency"])
        amount = f"{SYMBOLS[refund['currency']]}{refund['amount']:.2f}"
        return f"Done: {amount} for your {order['item']} goes back to your account (reference {refund['reference']})."


def answer(question):
    """Return the conversation as output messages: the tool calls, then the answer."""
    desk = Desk()
    text = desk.answer(question)
    calls = [{"role": "assistant", "tool_calls": desk.calls}] if desk.calls else []
    return {"output_messages": [*calls, {"role": "assistant", "content": text}]}


def main():
    parser = argparse.ArgumentParser(description="Answer questions about orders.")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--prompt-file", type=Path)
    asked.add_argument("--cases-file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.prompt_file:
        lines = [answer(options.prompt_file.read_text("utf-8"))]
    else:
        with options.cases_file.open(encoding="utf-8") as file:
            cases = [json.loads(line) for line in file]
        lines = [{"id": case["id"], **answer(case["prompt"])} for case in cases]
    options.out.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
