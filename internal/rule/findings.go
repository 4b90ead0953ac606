package rule

import (
	"strings"

	"investigator/internal/verdict"
)

// verdict fills what every verdict has.
func (q *inquiry) verdict(v verdict.Verdict) verdict.Verdict {
	v.Evidence, v.RuledOut, v.NotExamined = q.evidence, q.ruledOut, q.missing
	return v
}

// blameChange concludes that a change shortly before the symptom caused it.
func (q *inquiry) blameChange(c change, startedAt, symptom string) verdict.Verdict {
	q.cite(c.address)
	confidence := "high"
	mechanism := "The " + c.String() + " came just before the symptom"
	if q.suspects(c.service) > 1 {
		confidence = "medium"
		mechanism += "; of several changes it is the nearest"
	}
	if !q.since.seen || len(q.missing) > 0 {
		confidence = "medium"
	}
	return q.verdict(verdict.Verdict{
		Component: c.service, Class: "change", Change: c.id, Confidence: confidence, StartedAt: startedAt,
		Mechanism:      mechanism + ".",
		Summary:        symptom + " Just before it came the " + c.String() + ", the likely cause.",
		Recommendation: "Roll back " + c.name() + " of " + c.service + " and check that the symptom goes with it.",
	})
}

// blameLine concludes from a log line that names the mechanism.
func (q *inquiry) blameLine(l logLine) verdict.Verdict {
	q.cite(l.address())
	component := l.culprit()
	summary := q.since.sentence + " The logs of " + l.service + " say at " + l.time + ": \"" + clip(l.message) + "\"."
	recommendation := "Hand over to " + team(component) + ": find out what happened to " + component + " before " + l.time + "."
	if q.noChange {
		summary += " No recorded change of " + q.service + " lies shortly before, so a change made outside the deploy pipeline is suspected."
		recommendation = "Escalate to " + team(component) + ": ask what was changed on " + component + " outside the deploy pipeline before " + l.time + "."
	}
	if component != q.service {
		q.note("the metrics and changes of "+component, "the log line was taken at its word")
	}
	return q.verdict(verdict.Verdict{
		Component: component, Class: l.class, Confidence: "medium", StartedAt: l.time,
		Mechanism: lineMechanism(l, component), Summary: summary, Recommendation: recommendation,
	})
}

func lineMechanism(l logLine, component string) string {
	switch l.class {
	case "saturation":
		return component + " ran out of a resource: " + clip(l.message) + "."
	case "dependency":
		return l.service + " waits for " + component + ": " + clip(l.message) + "."
	}
	return component + " fails: " + clip(l.message) + "."
}

// team names who to ask, going by what the component is called.
func team(component string) string {
	if containsAny(strings.ToLower(component), "db", "sql", "database", "rds", "dynamo", "mongo", "redis", "cassandra") {
		return "the database team"
	}
	return "the team that owns " + component
}

// fromHint concludes with the little that a weak log line says, or with
// nothing.
func (q *inquiry) fromHint() verdict.Verdict {
	if q.hint == nil || !q.hint.loud() || q.since.at == 0 {
		return q.inconclusive()
	}
	l := *q.hint
	q.cite(l.address())
	component := l.culprit()
	return q.verdict(verdict.Verdict{
		Component: component, Class: l.class, Confidence: "low", StartedAt: l.time,
		Mechanism:      lineMechanism(l, component),
		Summary:        q.since.sentence + " The most telling line that is new since then is from " + l.service + " at " + l.time + ": \"" + clip(l.message) + "\". That is a hint, not a proof.",
		Recommendation: "Needs a human: ask " + team(component) + " what this line means.",
	})
}

// inconclusive says honestly that nothing was found.
func (q *inquiry) inconclusive() verdict.Verdict {
	subject := q.service
	if subject == "" {
		subject = "the service in question"
	}
	return q.verdict(verdict.Verdict{
		Class: "unknown", Confidence: "none", StartedAt: q.since.text,
		Mechanism:      "Not found.",
		Summary:        strings.TrimSpace(q.since.sentence + " Neither changes, nor logs, nor the services behind " + subject + " show a cause. Inconclusive."),
		Recommendation: "Needs a human: look at what was not examined.",
	})
}
