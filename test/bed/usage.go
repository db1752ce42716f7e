package bed

// OperatorPID is the process of the operator, 0 when it does not run.
func (b *Bed) OperatorPID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.operator == nil {
		return 0
	}
	return b.operator.cmd.Process.Pid
}
