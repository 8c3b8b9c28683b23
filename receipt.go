package toolyard

// Receipt is the price of a call. Spent and Remaining are the paying account's or session's
// figures, as far as this replica knows them; they are nil if it does not.
type Receipt struct {
	Call      string `json:"call"`
	Price     Money  `json:"priceUsd"`            // charged; zero for a failed call
	ChargedTo string `json:"chargedTo,omitempty"` // ID of the account or session that paid
	Spent     *Money `json:"spentUsd,omitempty"`
	Remaining *Money `json:"remainingUsd,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"` // the result is from an earlier call, which paid for it
}
