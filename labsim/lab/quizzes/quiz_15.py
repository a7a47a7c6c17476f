"""Quiz of notebook 15: read, gate, decide."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="15.q1",
        title="one scrape",
        text="The metrics page gives 0.41 accepted/drafted. The server has been up since Monday; on Tuesday the "
        "traffic changed. Which alpha do you gate on?",
        options=(
            Option(
                "That of two scrapes, subtracted.",
                "The traffic between the two scrapes of the page has 0.327, where one scrape says 0.407. With its "
                "interval, that is a measurement of now.",
                right=True,
            ),
            Option(
                "0.41: it rests on the most drafts.",
                "The counters run since the server started: most of those drafts are of the old traffic.",
            ),
            Option(
                "The mean of Monday's and Tuesday's.",
                "An average over a change describes neither side of it.",
            ),
        ),
        numbers={
            "0.327": "alpha_between_scrapes",
            "0.407": "alpha_one_scrape",
        },
    ),
    Question(
        id="15.q2",
        title="two meanings on one line",
        text="An SGLang log line. Some versions count the bonus token in the rate, some do not. What is "
        "accepted/drafted?",
        code="Decode batch, #running-req: 8, ..., accept len: 2.40, accept rate: 0.60",
        options=(
            Option(
                "0.60, as printed.",
                "If the bonus were outside, K would be 1.40 / 0.60 = 2.33 drafted tokens. K is a whole number, so "
                "the bonus is inside the rate.",
            ),
            Option(
                "0.47",
                "2.40 / 0.60 = 4 = K + 1, a whole number, so the rate counts the bonus. K = 3, and 1.40 / 3 = 0.47.",
                right=True,
            ),
            Option(
                "It cannot be told from this line.",
                "It can: only one of the two readings makes K a whole number here. (At a rate of 1/2 both would; "
                "then it takes more lines.)",
            ),
        ),
        numbers={
            "1.40": "2.4 - 1",
            "2.33": "1.4 / 0.6",
            "0.47": "1.4 / 3",
        },
    ),
    Question(
        id="15.q3",
        title="a policy says no",
        text="alpha is 0.47 with a lower bound of 0.464, K = 3, one H100, 8B. A policy asks for 0.55. Break-even is "
        "0.10 with one user and 0.17 with 32. What goes into the plan?",
        options=(
            Option(
                "No-go: 0.464 is below 0.55.",
                "As far as the policy goes. The plan also says that it is the policy *alone* that says no: by "
                "break-even this draft wins.",
            ),
            Option(
                "Go: 0.47 is above break-even.",
                "Compare the lower bound, at *your* concurrency, with its margin. It passes here, but the policy is "
                "still on the table.",
            ),
            Option(
                "By break-even a go, by policy a no-go, and which of them governs.",
                "Lower bound 0.464 against 0.10 to 0.17, and against 0.55. A policy is a choice; the plan names it "
                "and lets somebody decide.",
                right=True,
            ),
        ),
        numbers={
            "0.464": "steady_alpha_lower",
        },
    ),
    Question(
        id="15.q4",
        title="the tail",
        text="In the canary the P99 chunk gap grows by 15 % to 22 ms, the P99 of TPOT by 7 %, the mean TPOT falls "
        "by a quarter. What decides?",
        options=(
            Option(
                "The P99 of TPOT: no group of users may get slower.",
                "TPOT is one average per request: its P99 is the slow user. 7 % slower is what the gate has to weigh.",
                right=True,
            ),
            Option(
                "The chunk gap: 15 % is too much.",
                "A chunk is a step, and a step now emits several tokens. Its ratio means nothing; 22 ms is far "
                "below a stall.",
            ),
            Option(
                "The mean: it fell by a quarter.",
                "The mean is the gain, not the risk. The users with poor acceptance pay for every step and gain "
                "little.",
            ),
        ),
        numbers={
            "22": "complaint_gap_p99_ms",
            "7 %": "complaint_tpot_p99_change",
        },
    ),
)
