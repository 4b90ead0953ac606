// Package faults holds the edits a fork makes. A Patch edits one event of a
// run; a fault is a named patch for something that happens in production.
//
// Apply takes a patch and an event and gives the event as the fork will have
// it, with the edge.Return that makes the loop write it. Check does the same
// and keeps only the error, so a fork that cannot work is refused before
// anything runs.
//
// Pointers of a patch point into the event's data, except for tool.returned,
// where they point into the data's "result": what a verdict cites as
// E7#/deploys/1 is dropped with the pointer /deploys/1. Patches take
// tool.returned, model.responded, model.failed and run.started. The other
// events follow from these, and the error says which one to patch instead.
//
// Operations are those of RFC 6902 plus one of ours, "set", which replaces what
// the pointer names or adds the member; "test" compares spellings, so 1 is not
// 1.0. Edited.Ops gives what was done in plain RFC 6902. What a patch leaves
// alone keeps its bytes: 1.0, 1e400, -0.0 and 9007199254740993 survive.
//
// Faults of tool results work on the records: the one array at the least depth
// at which the result's objects hold any, whatever members stand beside it.
// Where a fault needs two records and there is one that holds one array of
// objects, as one metric holds its points, those are the records. A result left
// without records says "empty" in its status if it said "ok"; counts and windows
// are left alone.
//
// Refused, always with a reason and a hint: a patch that does not apply, one
// that changes nothing, and one after which Bedrock would not take the
// conversation: edited signed reasoning (a block stays as it is or goes), tool
// names and ids outside the API's rules, inputs that are no objects. Blocks a
// model gave and the patch leaves alone are not judged; converse.Echo repairs
// them. CheckConversation is the last guard before a conversation is sent.
//
// The package is pure.
package faults
