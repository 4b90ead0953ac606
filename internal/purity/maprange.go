package purity

import (
	"go/ast"
	"go/token"
	"go/types"
)

func (c *checker) rangeOver(n *ast.RangeStmt) {
	if n.Tok == token.ASSIGN {
		c.writes(nonNil(n.Key, n.Value)...)
	}
	t := c.info.Types[n.X].Type
	switch {
	case t == nil:
		c.report(n, "map range", "what is ranged over has no known type")
	case is[*types.Chan](t):
		c.report(n, "channel", "range over a channel")
	case is[*types.Map](t) && !c.allowed[n] && len(nonNil(n.Key, n.Value)) > 0 && !c.copies(n):
		c.report(n, "map range", "the order differs between executions: collect the keys and sort them right after")
	}
}

func nonNil(exprs ...ast.Expr) (out []ast.Expr) {
	for _, e := range exprs {
		if e == nil {
			continue
		}
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			out = append(out, e)
		}
	}
	return out
}

// is reports whether a type, or any type a type parameter may stand for, has
// the given kind.
func is[T types.Type](t types.Type) bool {
	if _, ok := t.Underlying().(T); ok {
		return true
	}
	constraint, ok := t.Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for i := range constraint.NumEmbeddeds() {
		switch e := constraint.EmbeddedType(i).(type) {
		case *types.Union:
			for j := range e.Len() {
				if is[T](e.Term(j).Type()) {
					return true
				}
			}
		default:
			if is[T](e) {
				return true
			}
		}
	}
	return false
}

// clearRanges allows the ranges in a list of statements that collect into a
// slice which the very next statement sorts.
func (c *checker) clearRanges(list []ast.Stmt) {
	for i := range max(0, len(list)-1) {
		n, ok := list[i].(*ast.RangeStmt)
		if !ok {
			continue
		}
		if into := c.collected(n); into != nil && c.sorts(list[i+1], into) {
			c.allowed[n] = true
		}
	}
}

// collected returns the variable that a range's one statement appends the key,
// or the value, to: s = append(s, k).
func (c *checker) collected(n *ast.RangeStmt) types.Object {
	assign, ok := only[*ast.AssignStmt](n.Body)
	if !ok || assign.Tok != token.ASSIGN || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return nil
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) != 2 || call.Ellipsis.IsValid() {
		return nil
	}
	if name, ok := call.Fun.(*ast.Ident); !ok || c.info.Uses[name] != types.Universe.Lookup("append") {
		return nil
	}
	into := c.object(assign.Lhs[0])
	if into == nil || into != c.object(call.Args[0]) || !c.isLoopVar(n, call.Args[1]) {
		return nil
	}
	return into
}

// sorts reports whether a statement is the sorting of a variable by the natural
// order of its elements. A comparison of one's own could leave ties.
func (c *checker) sorts(s ast.Stmt, what types.Object) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || c.object(call.Args[0]) != what {
		return false
	}
	return c.isStd(call.Fun, "slices", "Sort") || c.isStd(call.Fun, "sort", "Strings", "Ints")
}

// copies reports whether a range's one statement sets, or deletes, the range's
// own key in another map: other[k] = v, other[k] = constant, delete(other, k).
func (c *checker) copies(n *ast.RangeStmt) bool {
	if call, ok := only[*ast.ExprStmt](n.Body); ok {
		d, ok := call.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := d.Fun.(*ast.Ident)
		return ok && c.info.Uses[name] == types.Universe.Lookup("delete") && c.isOtherMap(n, d.Args[0]) && c.isKey(n, d.Args[1])
	}
	assign, ok := only[*ast.AssignStmt](n.Body)
	if !ok || assign.Tok != token.ASSIGN || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return false
	}
	index, ok := assign.Lhs[0].(*ast.IndexExpr)
	if !ok || !c.isOtherMap(n, index.X) || !c.isKey(n, index.Index) {
		return false
	}
	return c.isLoopVar(n, assign.Rhs[0]) || c.isConstant(assign.Rhs[0])
}

func only[S ast.Stmt](body *ast.BlockStmt) (s S, ok bool) {
	if len(body.List) == 1 {
		s, ok = body.List[0].(S)
	}
	return s, ok
}

func (c *checker) isOtherMap(n *ast.RangeStmt, x ast.Expr) bool {
	t := c.info.Types[x].Type
	target := c.object(x)
	return t != nil && is[*types.Map](t) && target != nil && target != c.object(n.X)
}

func (c *checker) isConstant(x ast.Expr) bool {
	if c.info.Types[x].Value != nil {
		return true
	}
	lit, ok := x.(*ast.CompositeLit)
	return ok && len(lit.Elts) == 0
}

func (c *checker) isKey(n *ast.RangeStmt, x ast.Expr) bool {
	return n.Key != nil && c.object(x) != nil && c.object(x) == c.object(n.Key)
}

func (c *checker) isLoopVar(n *ast.RangeStmt, x ast.Expr) bool {
	return c.isKey(n, x) || n.Value != nil && c.object(x) != nil && c.object(x) == c.object(n.Value)
}

// object is the variable a plain name stands for, nil for anything else.
func (c *checker) object(x ast.Expr) types.Object {
	name, ok := x.(*ast.Ident)
	if !ok || name.Name == "_" {
		return nil
	}
	if obj := c.info.Defs[name]; obj != nil {
		return obj
	}
	return c.info.Uses[name]
}
