package rule

import (
	"slices"
	"strconv"

	"investigator/internal/verdict"
)

func itoa(n int) string { return strconv.Itoa(n) }

// judge concludes about the deepest sick service: its changes, then its
// resources, then its logs.
func (q *inquiry) judge(p place, sick []*place) (verdict.Verdict, bool) {
	found, waiting := q.changesBehind(p.name)
	if waiting {
		return verdict.Verdict{}, true
	}
	q.acquitOthers(p, sick)
	q.cite(p.series.address(p.dev.before), p.series.address(p.dev.from), p.address)
	story := q.since.sentence + " " + q.sentence(p)
	if found != nil {
		return q.blameChange(*found, p.dev.from.t(), story), false
	}
	if s, d, ok := p.resource(q.since.at); ok {
		q.cite(s.address(d.before), s.address(d.from))
		why := s.metric + " of " + p.name + " went from " + s.with(d.before) + " to " + s.with(d.from) + "."
		return q.blamePlace(p, "saturation", why, story+" "+why), false
	}
	if l := q.hint; l != nil && l.loud() && l.culprit() == p.name {
		q.cite(l.address())
		return q.blamePlace(p, l.class, lineMechanism(*l, p.name), story+" It logs at "+l.time+": \""+clip(l.message)+"\"."), false
	}
	class := "unknown"
	if f := family(p.series.metric); f == "availability" || f == "error" {
		class = "failure"
	}
	return q.blamePlace(p, class, p.name+" misbehaves itself, and its metrics and changes do not say why.", story), false
}

// changesBehind looks for a change of the culprit, or one of the alert's own
// service that an earlier list did not show. It asks for the changes of all
// services at once where the tool allows that, so that those of the others can
// be ruled out, and for those of the culprit alone where that brought too much
// or an error.
func (q *inquiry) changesBehind(culprit string) (*change, bool) {
	offered := q.talk.tool(toolDeploys)
	if offered == nil || slices.Contains(offered.schema.get("required").strings(), "service") {
		return q.changesOf(culprit)
	}
	a, waiting := q.ask(toolDeploys)
	if waiting {
		return nil, true
	}
	if !a.ok || a.truncated() {
		q.say = "The changes of all services could not be listed (" + a.why + "). Asking for those of " + culprit + "."
		return q.changesOf(culprit)
	}
	q.changes, q.listed = q.talk.readChanges(), true
	q.cite(a.at(""))
	if found := q.suspect(culprit); found != nil {
		return found, false
	}
	return q.suspect(q.service), false
}

// acquitOthers says of the changes of other services why they are not blamed.
func (q *inquiry) acquitOthers(p place, sick []*place) {
	q.changes = q.talk.readChanges()
	for _, c := range q.changes {
		switch ill := slices.ContainsFunc(sick, func(s *place) bool { return s.name == c.service }); {
		case c.service == p.name || c.service == q.service:
		case ill:
			q.ruleOut(c, c.service+" shows the symptom, but "+p.name+" behind it does as well")
		default:
			q.ruleOut(c, "no symptom was seen in "+c.service)
		}
	}
}

// resource finds the metric of a resource that ran up with the symptom.
func (p place) resource(since moment) (best series, dev deviation, ok bool) {
	for _, s := range p.all {
		if family(s.metric) != "resource" {
			continue
		}
		d := s.deviates(since)
		if full := s.full(since); !d.found && full.found {
			d = full
		}
		if d.found && d.severity > dev.severity {
			best, dev, ok = s, d, true
		}
	}
	return best, dev, ok
}

// blamePlace concludes that a service is at fault without knowing a change.
func (q *inquiry) blamePlace(p place, class, mechanism, summary string) verdict.Verdict {
	confidence := "medium"
	if class == "unknown" || len(q.missing) > 2 {
		confidence = "low"
	}
	summary += " It is the deepest service on the way from " + q.service + " that shows the symptom"
	if q.listed {
		summary += ", and no recorded change of it lies shortly before"
	}
	return q.verdict(verdict.Verdict{
		Component: p.name, Class: class, Confidence: confidence, StartedAt: p.dev.from.t(), Mechanism: mechanism,
		Summary:        summary + ".",
		Recommendation: "Hand over to " + team(p.name) + ": find out what happened to " + p.name + " before " + p.dev.from.t() + ".",
	})
}
