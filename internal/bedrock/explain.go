package bedrock

import (
	"errors"
	"strings"

	"investigator/internal/edge"
)

// Unreachable reports whether a failure means that Bedrock was never reached, or
// did not let us in: another model could still do the run. A model that
// answered with an error of its own, or a request it refused, is not that.
func Unreachable(f edge.Failure) bool {
	switch f.Name {
	case connectionFailed, credentialsFailed, unexpectedAnswer, requestNotPossible,
		noCredentials, expiredSession, noRegion, unknownProfile, badEndpoint, badConfig, bearerRefused:
		return true
	}
	return f.Status == 401 || f.Status == 403
}

// ExplainError is Explain for an error of New, or of anything else that wraps a
// *SetupError. Another error is its own message, without a hint.
func ExplainError(err error) (message, hint string) {
	var setup *SetupError
	if !errors.As(err, &setup) {
		return err.Error(), ""
	}
	message, hint = Explain(setup.Failure)
	if setup.Err != nil {
		message += ": " + setup.Err.Error()
	}
	return message, hint
}

// Explain says in a line what a failure is, and what to do about it; hint is ""
// where that is not known.
func Explain(f edge.Failure) (message, hint string) {
	message = f.Message
	if strings.HasSuffix(f.Name, "Exception") || message == "" {
		message = strings.TrimSuffix(f.Name+": "+f.Message, ": ")
	}
	for _, a := range advice() {
		if a.fits(f) {
			return message, a.hint
		}
	}
	return message, ""
}

// advised is a hint and the failures it is for: those of one of the names,
// with the text in their message. No name means any, no text means any.
type advised struct {
	names string // separated by blanks
	text  string // lower case
	hint  string
}

func (a advised) fits(f edge.Failure) bool {
	named := a.names == ""
	for name := range strings.FieldsSeq(a.names) {
		named = named || name == f.Name
	}
	return named && strings.Contains(strings.ToLower(f.Message), a.text)
}

const offline = " The rule model needs no account: --model rule."

// advice is tried in order: the particular before the general.
func advice() []advised {
	return []advised{
		{noCredentials, "", "Set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " + bearerVariable + "; or log in with `aws sso login`." + offline},
		{expiredSession, "", "Log in again: `aws sso login` (with --profile if you use one)." + offline},
		{credentialsFailed, "plain http", "Unset " + bearerVariable + ", or give an https endpoint."},
		{bearerRefused, "", "Unset " + bearerVariable + ", or give an https endpoint."},
		{credentialsFailed, "", "Log in again (`aws sso login`), or renew the keys of the profile."},
		{noRegion, "", "Give --region, or set AWS_REGION, to a region with Bedrock such as us-east-1."},
		{unknownProfile, "", "`aws configure list-profiles` shows those there are."},
		{badEndpoint, "", "Give --endpoint-url a URL like https://bedrock-runtime.us-east-1.amazonaws.com."},
		{badConfig, "", "Check the AWS configuration files and AWS_CA_BUNDLE: `aws configure list` shows what is in use."},

		{"ExpiredTokenException ExpiredToken", "", "The session is over: log in again (`aws sso login`) or renew AWS_SESSION_TOKEN."},
		{"", "security token included in the request is expired", "The session is over: log in again (`aws sso login`) or renew AWS_SESSION_TOKEN."},
		{"UnrecognizedClientException InvalidClientTokenId", "", "AWS does not know these keys: check AWS_ACCESS_KEY_ID and the profile, and that the region is enabled for the account."},
		{"MissingAuthenticationTokenException", "", "The request went out without credentials: check the profile and the endpoint."},
		{"InvalidSignatureException SignatureDoesNotMatch RequestTimeTooSkewed", "", "Check the secret key and the clock of this machine."},
		{"AccessDeniedException", "marketplace", "The model is sold through AWS Marketplace: somebody with the aws-marketplace permissions must enable it for the account."},
		{"AccessDeniedException", "not authorized to perform", "The role lacks the named permission: allow bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream on the model, and on the inference profile if there is one."},
		{"AccessDeniedException", "", "Ask for access to the model in the Bedrock console of this region (Model access), or take another with --model."},

		{"ValidationException", "on-demand throughput isn", "Use an inference profile: put us., eu., apac. or global. before the model id, such as us.anthropic.…, or give the profile's ARN."},
		{"ValidationException", "model identifier is invalid", "Check --model and --region: `aws bedrock list-foundation-models` and `aws bedrock list-inference-profiles` show what the region has."},
		{"ValidationException", "temperature", "Newer Claude models take no temperature: leave it out."},
		{"ValidationException", "doesn't support tool use", "The investigation needs a model that calls tools: take another with --model."},
		{"ResourceNotFoundException", "", "The model or profile is not in this region, or is no longer offered: `aws bedrock list-inference-profiles` shows what is."},
		{"ThrottlingException", "per day", "The account's daily quota of tokens is used up: raise it in Service Quotas, or take another model."},
		{"ThrottlingException ServiceQuotaExceededException", "", "The account's quota for this model is exhausted: run fewer at once, take a cross-region profile (us., eu., global.), or raise it in Service Quotas."},
		{"ModelNotReadyException", "", "The model is still loading: try again in a few minutes."},
		{callTimeout, "throttlingexception", "The account's quota for this model is exhausted: run fewer at once, take a cross-region profile (us., eu., global.), raise it in Service Quotas, or give the call more time with --call-timeout."},
		{"ModelTimeoutException " + callTimeout + " " + idleTimeout, "", "The model took too long: try again, or give the call more time with --call-timeout."},
		{"InternalServerException ServiceUnavailableException", "", "Bedrock itself is in trouble: try again later, or in another region."},

		{unexpectedAnswer, "web page", "Something between here and Bedrock answered, such as a corporate proxy or a sign-in page: check HTTPS_PROXY and NO_PROXY, and sign in to the network."},
		{unexpectedAnswer, "", "Check that the endpoint is Bedrock's: --endpoint-url and AWS_ENDPOINT_URL_BEDROCK_RUNTIME."},
		{connectionFailed, "not trusted", "If the network inspects TLS, point AWS_CA_BUNDLE to its certificate authority."},
		{connectionFailed, "host name", "Check the spelling of the region, and that Bedrock is offered there." + offline},
		{connectionFailed, "proxy", "Check HTTPS_PROXY and NO_PROXY."},
		{connectionFailed, "does not speak tls", "Check the scheme of the endpoint: https was asked for."},
		{connectionFailed, "", "Check the network, HTTPS_PROXY, and the endpoint if one is given." + offline},
		{requestNotPossible, "", "Check --region, --endpoint-url and --model."},
	}
}
