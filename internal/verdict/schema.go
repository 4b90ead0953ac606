package verdict

import "encoding/json"

// Description tells a model what report_findings is for.
const Description = `Report the conclusion of the investigation. Calling this tool ends the run. ` +
	`Cite evidence by the address shown beside each tool result ("E7", or "E7#/deploys/1" for a part of it). ` +
	`If the evidence does not carry a conclusion, report an inconclusive verdict: component "" and confidence "none".`

// Schema returns the JSON Schema of a verdict, canonical JSON.
func Schema() json.RawMessage {
	return json.RawMessage(`{"properties":{` +
		`"change":{"description":"id of the change behind it, \"\" if there is none","type":"string"},` +
		`"class":{"description":"kind of mechanism","enum":["change","saturation","dependency","load","failure","unknown"],"type":"string"},` +
		`"component":{"description":"the service or resource at fault, \"\" if inconclusive","type":"string"},` +
		`"confidence":{"enum":["high","medium","low","none"],"type":"string"},` +
		`"evidence":{"description":"addresses of the results the conclusion rests on","items":{"pattern":"^E[1-9][0-9]{0,8}(#(/[^\\r\\n]*)?)?$","type":"string"},"type":"array"},` +
		`"mechanism":{"description":"how it fails, in one sentence","type":"string"},` +
		`"not_examined":{"description":"what was not looked at and could change the conclusion","items":{"type":"string"},"type":"array"},` +
		`"recommendation":{"description":"what to do next, and who","type":"string"},` +
		`"ruled_out":{"items":{"properties":{"evidence":{"items":{"type":"string"},"type":"array"},"hypothesis":{"type":"string"},"reason":{"type":"string"}},"required":["hypothesis","reason"],"type":"object"},"type":"array"},` +
		`"started_at":{"description":"when it began, RFC 3339, \"\" if unknown","type":"string"},` +
		`"summary":{"description":"the finding for the incident review, two or three sentences","type":"string"}},` +
		`"required":["component","class","mechanism","change","started_at","confidence","summary","evidence","ruled_out","recommendation"],` +
		`"type":"object"}`)
}
