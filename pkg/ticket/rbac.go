package ticket

// What Issuer needs, for controller-gen: accounts and their tokens, in the bootstrap namespace only.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create;delete;get;list,namespace=windows-machine-bootstrap
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create,namespace=windows-machine-bootstrap
