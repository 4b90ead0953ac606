package world

type servicesBody struct {
	Services []serviceOut `json:"services"`
	Status   string       `json:"status"`
}

type serviceOut struct {
	CalledBy []string `json:"called_by"`
	Calls    []string `json:"calls"`
	Has      []string `json:"has"`
	Name     string   `json:"name"`
}

func (w *World) listServices(args) Result {
	body := servicesBody{Status: StatusOK}
	for _, name := range w.meta.Services {
		s := serviceOut{CalledBy: []string{}, Calls: []string{}, Has: w.kinds(name), Name: name}
		for _, edge := range w.meta.Graph {
			if edge[0] == name {
				s.Calls = append(s.Calls, edge[1])
			}
			if edge[1] == name {
				s.CalledBy = append(s.CalledBy, edge[0])
			}
		}
		body.Services = append(body.Services, s)
	}
	return result(StatusOK, body)
}

// kinds says what there is to ask about a service, so that a model need not
// find out call by call. Changes are left out: a fork that withholds a change
// record must not be given away by another tool.
func (w *World) kinds(service string) []string {
	has := []string{}
	if len(w.metrics[service]) > 0 {
		has = append(has, "metrics")
	}
	if len(w.logsOf(service)) > 0 {
		has = append(has, "logs")
	}
	return has
}
