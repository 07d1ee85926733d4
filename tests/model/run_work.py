"""The random life of what an agent works through in its runs: steps, messages, and the end."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from refold.domain.messages import HumanMessage

from .run_life import NUMBER, Place, RunLife
from .run_view import Other, Step

QUEUES = ["pre", "todo", "post"]
QUEUE = st.sampled_from(QUEUES)
WORK = st.sampled_from(["queue", "queue", "take", "take", "give back", "fill", "clear"])
WORD = st.sampled_from(["", "p", "日本"])


class RunWork(RunLife):
    """Steps are queued and taken, messages recorded. One rule for each, so that most of a life is about the graph."""

    @rule(number=NUMBER, works=st.lists(st.tuples(WORK, QUEUE, NUMBER), min_size=1, max_size=5))
    def work(self, number: int, works: list[tuple[str, str, int]]) -> None:
        """Do several things with steps."""
        for what, queue, chosen in works:
            self.do(self.pick(number), what, queue, chosen)

    def do(self, place: Place, what: str, queue: str, chosen: int) -> None:
        """Do something with steps."""
        match what:
            case "queue":
                params = [None, {}, {"a": [chosen]}][chosen % 3]
                self.act(
                    place,
                    lambda run: run.append_todo("s", params, queue),
                    lambda rules: rules.queue(queue, "s", params),
                    catch_up=True,
                )
            case "take":
                self.take_step(place, queue)
            case "give back":
                self.give_step_back(place, chosen)
            case "fill":
                self.fill_queues(place, chosen % 5, chosen % 4 + 1)
            case "clear":
                queues = QUEUES[chosen % 3 :]
                self.act(place, lambda run: run.clear_steps(*queues), lambda rules: rules.clear(queues), catch_up=False)

    def take_step(self, place: Place, queue: str) -> None:
        """Take the next step."""
        before = len(self.streams[place[1]])

        step = self.act(place, lambda run: run.pop_todo(queue), lambda rules: rules.take(queue), catch_up=True)

        taken = [one for one in self.streams[place[1]][before:] if isinstance(one, Step)]
        given = [] if step is None else [(step["name"], step["params"], step.version)]
        assert given == [(one.name, one.params, one.number) for one in taken]

    def give_step_back(self, place: Place, chosen: int) -> None:
        """Give a step back, one that is taken or one that is not."""
        taken = list(self.view(place).queues()[1])
        version = taken[chosen % len(taken)] if taken and chosen % 5 else chosen
        self.act(place, lambda run: run.return_step(version), lambda rules: rules.give_back(version), catch_up=True)

    def fill_queues(self, place: Place, pre: int, post: int) -> None:
        """Fill the queues before and after anew; what has no room is refused."""
        names = {"pre": [f"pre{one}" for one in range(pre)], "post": [f"post{one}" for one in range(post)]}
        refused = self.act(
            place,
            lambda run: run.init_todolist(names["pre"], names["post"]),
            lambda rules: rules.fill(names),
            catch_up=True,
        )
        assert refused in (None, [*names["pre"][3:], *names["post"][3:]])

    @rule(number=NUMBER, texts=st.lists(WORD, min_size=1, max_size=2), ends=st.integers(0, 40))
    def say(self, number: int, texts: list[str], ends: int) -> None:
        """Record messages, and end the run now and then."""
        place = self.pick(number)
        self.act(
            place,
            lambda run: run.record_messages(*map(HumanMessage, texts)),
            lambda _: [Other("message", text) for text in texts],
            catch_up=True,
        )
        if ends == 0:
            self.act(place, lambda run: run.close(), lambda rules: rules.close(), catch_up=True)
