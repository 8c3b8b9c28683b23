package toolyard

// Receipt is the price of a call. Spent and Remaining are the figures of the account or session
// that paid. They are nil if this replica does not have them.
type Receipt struct {
	Call      string `json:"call"`
	Price     Money  `json:"priceUsd"`            // charged; zero for a failed call
	ChargedTo string `json:"chargedTo,omitempty"` // ID of the account or session that paid
	Spent     *Money `json:"spentUsd,omitempty"`
	Remaining *Money `json:"remainingUsd,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"` // the result was replayed from an earlier call, which paid for it
}
