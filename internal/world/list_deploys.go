package world

import "fmt"

// maxDeploys is the most change records of one result; the newest are kept,
// being nearest to the question.
const maxDeploys = 100

type deploysBody struct {
	Deploys []change       `json:"deploys"`
	Nearest *nearest       `json:"nearest,omitempty"`
	Note    string         `json:"note,omitempty"`
	Others  map[string]int `json:"other_services,omitempty"`
	Service string         `json:"service,omitempty"`
	Status  string         `json:"status"`
	Window  window         `json:"window"`
}

// nearest are the changes of the service just outside the window.
type nearest struct {
	After  *change `json:"after,omitempty"`
	Before *change `json:"before,omitempty"`
}

func (w *World) listDeploys(a args) Result {
	body := deploysBody{Deploys: []change{}, Service: a.service, Status: StatusOK, Window: a.window}
	for _, c := range w.changes {
		if a.window.has(c.at) && (a.service == "" || c.Service == a.service) {
			body.Deploys = append(body.Deploys, c)
		}
	}
	if n := len(body.Deploys); n > maxDeploys {
		body.Status = StatusTruncated
		body.Deploys = body.Deploys[n-maxDeploys:]
		body.Note = fmt.Sprintf("the newest %d of %d changes; ask for one service or an earlier window to see the others", maxDeploys, n)
	}
	if len(body.Deploys) == 0 {
		w.noDeploys(a, &body)
	}
	return result(body.Status, body)
}

// noDeploys says what there is instead.
func (w *World) noDeploys(a args, body *deploysBody) {
	body.Status = StatusEmpty
	if len(w.changes) == 0 {
		body.Note = "this world has no change records"
		return
	}
	body.Note = "no change was recorded in this window"
	near := nearest{}
	for i, c := range w.changes {
		switch {
		case a.service != "" && c.Service != a.service:
			if a.window.has(c.at) {
				body.other(c.Service)
			}
		case c.at.Before(a.window.start):
			near.Before = &w.changes[i]
		case c.at.After(a.window.end) && near.After == nil:
			near.After = &w.changes[i]
		}
	}
	if near != (nearest{}) {
		body.Nearest = &near
	}
	if a.service != "" {
		body.Note = fmt.Sprintf("no change of %s was recorded in this window", a.service)
	}
}

func (b *deploysBody) other(service string) {
	if b.Others == nil {
		b.Others = map[string]int{}
	}
	b.Others[service]++
}
