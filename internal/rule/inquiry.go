package rule

import (
	"investigator/internal/verdict"
)

// inquiry is one turn's pass through the investigation.
type inquiry struct {
	talk  *talk
	calls []call // the questions without an answer
	say   string // what is told with them

	service string // the one under suspicion to begin with
	signal  string // its metric
	since   symptom

	evidence []string
	ruledOut []verdict.RuledOut
	missing  []string // what was not examined
	changes  []change // all that any result shows
	noChange bool     // the changes of service were listed and none lies before the symptom
	partly   bool     // the changes of service were listed, and not all of them
	listed   bool     // all changes that were asked for last were listed
	hint     *logLine // a log line that says little by itself
}

// symptom is what was seen of the alert in the measurements.
type symptom struct {
	at       moment // 0 if unknown
	text     string
	step     moment // distance of samples
	seen     bool   // in a series; else it is the alert's word
	denied   bool   // a series is there and does not show it
	sentence string
	evidence []string
}

// lookback is how long before a symptom a change may lie to be suspected: two
// samples, because a sample may stand for the time before it, and no less than
// ten minutes, because a rollout takes time.
func (s symptom) lookback() moment { return max(2*s.step, 10*minute) }

// investigate goes through the whole investigation. It returns waiting as soon
// as a question has no answer yet.
func (q *inquiry) investigate() (v verdict.Verdict, waiting bool) {
	if q.service == "" {
		return q.withoutSubject()
	}
	if q.symptom() {
		return v, true
	}
	if !q.since.denied {
		q.say = q.since.sentence + " Asking which changes of " + q.service + " came before."
		found, waiting := q.changesOf(q.service)
		if waiting {
			return v, true
		}
		if found != nil {
			return q.blameChange(*found, q.since.text, q.since.sentence), false
		}
	}
	q.say = q.since.sentence + " " + q.changeSentence() + " Searching the logs from then on."
	line, waiting := q.searchLogs()
	if waiting {
		return v, true
	}
	if line != nil && line.strong() {
		return q.blameLine(*line), false
	}
	q.hint = line
	if q.since.denied {
		return q.fromHint(), false
	}
	return q.descend()
}

// changeSentence says what the search for changes brought.
func (q *inquiry) changeSentence() string {
	switch {
	case q.since.denied:
		return "Without an onset, changes cannot be placed before it."
	case q.noChange:
		return "No recorded change of " + q.service + " lies shortly before."
	case q.partly:
		return "None of the changes of " + q.service + " that were shown lies shortly before."
	}
	return "The changes of " + q.service + " could not be listed."
}

// note adds something that was not examined, once.
func (q *inquiry) note(what, why string) {
	text := what
	if why != "" {
		text += ": " + why
	}
	for _, m := range q.missing {
		if m == text {
			return
		}
	}
	q.missing = append(q.missing, text)
}

// cite adds addresses to the evidence, each once.
func (q *inquiry) cite(addresses ...string) {
	for _, a := range addresses {
		known := a == ""
		for _, e := range q.evidence {
			known = known || e == a
		}
		if !known {
			q.evidence = append(q.evidence, a)
		}
	}
}

// withoutSubject ends a run in which nothing says where to begin.
func (q *inquiry) withoutSubject() (verdict.Verdict, bool) {
	q.since = symptom{at: q.talk.about.started, text: q.talk.about.startedText, step: minute,
		sentence: "Neither the task nor an alert names a service that the tools know."}
	q.say = q.since.sentence + " Searching all logs."
	line, waiting := q.searchLogs()
	if waiting {
		return verdict.Verdict{}, true
	}
	q.hint = line
	if line != nil && line.strong() {
		return q.blameLine(*line), false
	}
	return q.fromHint(), false
}
