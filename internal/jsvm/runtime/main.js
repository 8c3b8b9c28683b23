// All globals and modules beyond the language itself.
import "./core.js";
import "./web/index.js";
import "./intl.js";
import "./node/index.js";
