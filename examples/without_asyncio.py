"""The same agent for code without an event loop."""

from gnomon.sync import Agent

with Agent("demo", tools=["calculate"]) as agent:
    print(agent.run("What is 6*7?").text)
    with agent.stream("And 6*8?") as run:
        for text in run.text():
            print(text, end="")
    print()
