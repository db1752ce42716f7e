package windows

import (
	"errors"
	"runtime"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
)

// withCOM calls f on one thread with COM initialized for it. Two answers of CoInitializeEx are no failures: S_FALSE, the thread has it
// already; RPC_E_CHANGED_MODE, somebody has it with another threading model, which works as well and is not ours to end.
func withCOM(f func() error) error {
	const (
		already     = 1
		changedMode = 0x80010106
	)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED)
	var com *ole.OleError
	switch {
	case err == nil, errors.As(err, &com) && uint32(com.Code()) == already:
		defer ole.CoUninitialize()
	case com != nil && uint32(com.Code()) == changedMode:
	default:
		return failed("initialize COM", "", err)
	}
	return f()
}

// withObject makes an object by its program identifier and calls f with it.
func withObject(programID string, f func(*ole.IDispatch) error) error {
	unknown, err := oleutil.CreateObject(programID)
	if err != nil {
		return failed("create object", programID, err)
	}
	defer unknown.Release()
	object, err := unknown.QueryInterface(ole.IID_IDispatch)
	if err != nil {
		return failed("create object", programID, err)
	}
	defer object.Release()
	return f(object)
}

// withChild calls f with the object that a property or method returns.
func withChild(v *ole.VARIANT, err error, f func(*ole.IDispatch) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = v.Clear() }()
	child := v.ToIDispatch()
	if child == nil {
		return errNoObject
	}
	return f(child)
}

// errNoObject: a property that should hold an object does not.
var errNoObject = errors.New("no object in the answer")

// property reads a property of a simple type; the zero value stands for one that is empty or of another type.
func property[T any](object *ole.IDispatch, name string, into *T) error {
	v, err := oleutil.GetProperty(object, name)
	if err != nil {
		return err
	}
	defer func() { _ = v.Clear() }()
	if value, ok := v.Value().(T); ok {
		*into = value
	}
	return nil
}

// put writes properties in order.
func put(object *ole.IDispatch, values ...namedValue) error {
	for _, p := range values {
		if err := discard(oleutil.PutProperty(object, p.name, p.value)); err != nil {
			return err
		}
	}
	return nil
}

// namedValue is a property to write.
type namedValue struct {
	name  string
	value any
}

// discard frees a result that is of no interest.
func discard(v *ole.VARIANT, err error) error {
	if err != nil {
		return err
	}
	_ = v.Clear()
	return nil
}
